"""An embedded Kafka for the tests of applications: the fixtures of `aktor.testing.plugin`."""
