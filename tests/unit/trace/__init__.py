"""The trace."""
