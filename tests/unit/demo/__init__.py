"""The demo: a referee that cannot say no would be worth nothing."""
