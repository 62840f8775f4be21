"""A request in bytes, the answer that a broker owes us for it, and how to read that."""

from __future__ import annotations

import struct
from typing import Any, Final

from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.protocol.api_versions import parse_api_versions
from aktor.protocol.fetch import parse_fetch_response
from aktor.protocol.fetch_request import write_fetch_request
from aktor.protocol.tags import skip_tags

__all__ = ["RAW_TOKEN", "Agreed", "InFlightRequest", "write_request"]

#: Used in place of an API key if the frame is just a SASL token (before KIP-152).
RAW_TOKEN: Final = -1

#: The end of a flexible header: no tagged fields (KIP-482).
_NO_TAGS: Final = b"\0"

_FETCH: Final = 1
_API_VERSIONS: Final = 18
_WORD: Final = struct.Struct(">i")
#: Length, API key, version, correlation id, length of the client id.
_HEADER: Final = struct.Struct(">ihhih")


class InFlightRequest:
    """A request that is sent and not answered: what is needed to read its answer."""

    __slots__ = ("api_key", "correlation_id", "name", "request_id", "response", "size", "version")

    def __init__(
        self,
        *,
        api_key: int,
        version: int,
        correlation_id: int,
        request_id: int | None = None,
        size: int = 0,
    ) -> None:
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        #: The network actor's id of the request; None if the handshake sent it.
        self.request_id = request_id
        #: Bytes of its frame, with its length.
        self.size = size
        self.response: Any = ResponseClassRegistry._response_class_registry.get(api_key)
        self.name = f"{self.response.name if self.response is not None else api_key} v{version}"

    def decode(self, frame: memoryview) -> Any:
        """Read the whole frame. Raises whatever a malformed one leads to."""
        (correlation_id,) = _WORD.unpack_from(frame)
        if correlation_id != self.correlation_id:
            raise ValueError(
                f"it answers request {correlation_id}, the next answer due is to"
                f" {self.correlation_id}"
            )
        if self.api_key == _API_VERSIONS:
            return parse_api_versions(frame[4:], self.version)
        flexible = self.response.flexible_version_q(self.version)
        body = frame[_after_tags(frame) :] if flexible else frame[4:]
        if self.api_key == _FETCH:
            return parse_fetch_response(body, self.version)
        # What `decode` of the class does, but keeping the end: a cut-off string at the end is
        # read as a shorter one without complaint.
        decode = self.response._struct.compiled_decode_from(
            self.version, compact=flexible, tagged=flexible, data_class=self.response[None]
        )
        response, end = decode(body, 0)
        if end > len(body):
            raise ValueError(f"it is cut off: {len(body)} bytes of at least {end}")
        return response


class Agreed:
    """The newest version of each request that both sides of one connection speak."""

    def __init__(self, versions: BrokerVersionData) -> None:
        self.versions = versions
        self._found: dict[tuple[type, int | None, int | None], int] = {}

    def version_of(self, body: Any) -> int:
        """The version for this request. Raises IncompatibleBrokerVersion if there is none."""
        # Negotiated once for each type: kafka-python takes 20 calls for it.
        key = (type(body), body._min_version, body._max_version)
        version = self._found.get(key)
        if version is None:
            version = self._found[key] = self.versions.api_version(body)
        return version


def write_request(
    body: Any,
    agreed: Agreed | None,
    correlation_id: int,
    client_id: str,
    request_id: int | None = None,
) -> tuple[bytes, InFlightRequest]:
    """The frame of a request, with its length. A body that has a version keeps it."""
    version = body.API_VERSION
    if version is None:
        assert agreed is not None, "a request before the versions are known"
        version = agreed.version_of(body)
    data = write_fetch_request(body, version) if body.API_KEY == _FETCH else _encode(body, version)
    key, client = body.API_KEY, client_id.encode()
    tags = _NO_TAGS if body.flexible_version_q(version) else b""
    size = _HEADER.size - _WORD.size + len(client) + len(tags) + len(data)
    head = _HEADER.pack(size, key, version, correlation_id, len(client))
    frame = b"".join((head, client, tags, data))
    due = InFlightRequest(
        api_key=key,
        version=version,
        correlation_id=correlation_id,
        request_id=request_id,
        size=len(frame),
    )
    return frame, due


def _encode(body: Any, version: int) -> bytes:
    asked = body.API_VERSION
    try:
        return body.encode(version)  # type: ignore[no-any-return]  # kafka-python is untyped
    finally:
        body._version = asked  # the same body may go to a broker of another version next


def _after_tags(frame: memoryview) -> int:
    """Where the tagged fields of a flexible header end (KIP-482)."""
    at = skip_tags(frame, 4)
    if at > len(frame):
        raise ValueError("the header is cut off")
    return at
