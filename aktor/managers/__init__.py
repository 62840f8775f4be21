"""What to send and when: one request manager a module."""
