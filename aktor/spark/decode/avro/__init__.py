"""The values of `decode=avro`: from schemas in JSON to columns of Arrow."""
