"""The application thread's half: the facade, its settings, delivery and callbacks."""
