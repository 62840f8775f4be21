"""How it is said: the runtime, supervision, the network."""
