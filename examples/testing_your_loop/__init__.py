"""A consumer loop, and its test on an embedded Kafka: `pytest examples/testing_your_loop`."""
