"""The command `aktor`, called as a function and as a process."""
