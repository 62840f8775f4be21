"""The actors: the runtime, the supervisor, the network."""
