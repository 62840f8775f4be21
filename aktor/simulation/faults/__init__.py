"""What goes wrong: faults of brokers, network, topics, groups and members, drawn from the seed."""
