"""Committed offsets: commits, fetches, deletes, and how they end."""
