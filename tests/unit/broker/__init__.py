"""The embedded cluster's parts, each a state machine in passed-in time, and the server."""
