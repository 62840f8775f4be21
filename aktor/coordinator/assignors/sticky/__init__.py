"""kafka-python's sticky assignor."""
