"""The pytest plugin, run by a pytest inside pytest."""
