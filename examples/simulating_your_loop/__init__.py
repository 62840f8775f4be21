"""A consumer loop with a bug that seldom shows, and the simulation in which it always does."""
