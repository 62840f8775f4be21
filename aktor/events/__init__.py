"""What is said: frozen dataclasses, one module per conversation; `routes` says who hears what."""
