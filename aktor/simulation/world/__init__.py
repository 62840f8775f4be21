"""What members live in: time, network, brokers; the members, and what can happen to a process."""
