"""Commits and look-ups of committed offsets."""
