"""The deserializers that say what they make."""
