"""Which group protocol a consumer speaks, if it has to find out (`group_protocol="auto"`)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CONSUMER", "CLASSIC", "ProtocolChoice"]

CONSUMER = "consumer"
CLASSIC = "classic"


@dataclass(slots=True, kw_only=True)
class ProtocolChoice:
    """Owns the protocol that the group was found to speak: a restarted manager keeps to it.

    `falls_back`: the classic protocol takes over if the consumer protocol is not spoken.
    """

    protocol: str = ""
    falls_back: bool = True

    @property
    def is_open(self) -> bool:
        """Whether the classic protocol may still take over."""
        return self.falls_back and not self.protocol

    def settle(self, protocol: str) -> bool:
        """The group speaks this protocol; False if that was known."""
        is_new = self.protocol != protocol
        self.protocol = protocol
        return is_new
