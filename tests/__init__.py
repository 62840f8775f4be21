"""Tests of aktor: rules in `unit`, longer stories in `scenarios`, a real Kafka in `kafka`."""
