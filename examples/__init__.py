"""Programs to start from; each one is run by a test."""
