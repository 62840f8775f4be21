"""One rule at a time: pure handlers and decoders, no broker, no thread, no waiting."""
