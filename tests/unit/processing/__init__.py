"""Rules of `process`: order, commits, workers, failures."""
