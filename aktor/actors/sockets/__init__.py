"""The sockets: opens connections, logs in, and turns requests into bytes and bytes into answers."""
