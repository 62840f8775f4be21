"""Groups of the consumer protocol (KIP-848), as their coordinator keeps them."""
