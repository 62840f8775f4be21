"""An address as it is written: in texts for people, and in what another client is given."""

from __future__ import annotations

__all__ = ["written"]


def written(host: str, port: int) -> str:
    """The address as `bootstrap_servers` takes it: "host:port"; of IPv6 "[::1]:9092" (RFC 3986)."""
    # A broker may name no host at all.
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"
