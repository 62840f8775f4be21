"""Which offsets a query reads: where it begins and ends, its tasks, its checkpoint."""
