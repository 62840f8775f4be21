"""Rules of logins by SASL."""
