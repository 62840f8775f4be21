"""Ports that stay ours while a broker is down.

Never from the range the kernel gives to outgoing connections: a client that keeps asking a dead
broker's port there can be handed that very port for its own end, and block the restart or talk to
itself.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

_LOWEST = 10_000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Distinct ports on 127.0.0.1 nobody has now; another process may still be faster."""
    highest = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32_768
    candidates = range(_LOWEST, highest) if highest > _LOWEST + 1000 else range(_LOWEST, 65_536)
    found: list[int] = []
    for port in random.sample(candidates, k=len(candidates)):
        if len(found) == count:
            return found
        if is_free(port):
            found.append(port)
    raise OSError(
        f"no {count} free ports on 127.0.0.1 between {candidates[0]} and {candidates[-1]}"
    )


def is_free(port: int) -> bool:
    """Whether a broker could listen on `port` now."""
    with socket.socket() as probe:
        # As Java does it: connections of a former broker that linger in TIME_WAIT are no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
