"""Consumer groups of both protocols, each a state machine in passed-in time."""
