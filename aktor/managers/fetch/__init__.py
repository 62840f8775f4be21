"""Fetch: which partitions each broker is asked for, how many bytes, and what its answer brings."""
