"""What runs in the driver: requests to Kafka, the plan of a stream, its progress."""
