"""What goes wrong: faults of brokers, network and members, crashes of actors, signals."""
