"""The simulation itself: same seed, same history; what it finds, and that it can find it."""
