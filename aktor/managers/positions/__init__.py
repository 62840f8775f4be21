"""ListOffsets and OffsetForLeaderEpoch: where reading starts, offsets by time, truncations."""
