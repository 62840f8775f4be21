"""What aktor costs and how fast it is, measured beside its peers: `python -m benchmarks`."""
