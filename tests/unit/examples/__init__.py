"""The parts of the examples that judge: a referee that can't say no would be worth nothing."""
