"""The command `aktor`."""
