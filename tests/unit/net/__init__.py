"""Rules of what takes kafka-python's names of logins."""
