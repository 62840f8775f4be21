"""In which version of ApiVersions a broker is asked what it speaks."""

from __future__ import annotations

from typing import Final

from kafka.protocol.metadata import ApiVersionsRequest

__all__ = ["NEWEST_API_VERSIONS", "AskedVersions", "older_than"]

#: The newest version of ApiVersions that we speak.
NEWEST_API_VERSIONS: Final = int(ApiVersionsRequest.max_version)

#: In which versions ApiVersions is asked of a broker that hung up at a newer one. The first
#: flexible one, which brokers know since 2.4, and the one that they know since 0.10.
_OLDER: Final = (3, 0)


def older_than(version: int) -> int | None:
    """In which version ApiVersions is asked after the broker hung up at `version`; None: there is
    none left."""
    return next((older for older in _OLDER if older < version), None)


class AskedVersions:
    """Owns in which version each broker is asked for ApiVersions: the newest, or an older one since
    it hung up at a newer one.

    A broker that does not know the version has to answer UNSUPPORTED_VERSION (KIP-511). Some close
    the connection instead: Azure Event Hubs did at v4, brokers before 0.10 do at any, and so do
    proxies that read requests.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], int] = {}

    def of(self, host: str, port: int) -> int:
        """The version for the next connection to this broker."""
        return self._known.get((host, port), NEWEST_API_VERSIONS)

    def hung_up(self, host: str, port: int, version: int) -> None:
        """The broker closed a connection at ApiVersions of this version. After the oldest one it is
        the turn of the newest again: the broker may have hung up for another reason."""
        older = older_than(version)
        if older is None:
            self._known.pop((host, port), None)
        else:
            self._known[host, port] = older
