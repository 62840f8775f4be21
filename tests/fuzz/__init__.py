"""Fuzzing of what reads bytes from brokers: `python -m tests.fuzz`, with a corpus beside it."""
