"""What actors run on: the dispatcher, handlers of messages, ticks, and supervision."""
