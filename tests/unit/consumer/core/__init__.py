"""The application's half without its waiting."""
