"""Brokers, topics and their leaders: Metadata requests, and the snapshot of the cluster."""
