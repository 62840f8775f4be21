"""Records as columns."""
