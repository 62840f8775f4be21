"""What each request manager does with each message and each answer."""
