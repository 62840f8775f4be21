"""The network actor: which broker and connection a request takes, and how it ended."""
