"""What simulated members live in: virtual time, the scheduler, the network and the brokers."""
