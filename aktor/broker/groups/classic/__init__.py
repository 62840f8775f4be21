"""Groups of the classic protocol, as their coordinator keeps them."""
