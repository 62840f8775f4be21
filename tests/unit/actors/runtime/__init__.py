"""The runtime: dispatcher, ticks, supervision."""
