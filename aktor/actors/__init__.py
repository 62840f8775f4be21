"""What runs the managers: the runtime, the supervision, the network."""
