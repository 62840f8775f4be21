"""The present of a consumer: a picture of it, and why nothing is delivered."""
