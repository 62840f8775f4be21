"""The network actor."""
