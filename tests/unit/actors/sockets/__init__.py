"""The sockets and what is said over them."""
