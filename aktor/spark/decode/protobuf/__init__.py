"""Values of Protocol Buffers as columns: `decode=protobuf`."""
