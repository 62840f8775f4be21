"""OffsetCommit and OffsetFetch: commits of the group, and look-ups of committed offsets."""
