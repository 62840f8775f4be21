"""The messages between actors: frozen dataclasses, one module per conversation; see `routes`."""
