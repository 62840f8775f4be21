"""The rows of a query as records of Kafka: the writers, and the producers they use."""
