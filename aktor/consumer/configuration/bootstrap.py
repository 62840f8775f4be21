"""The bootstrap servers: the addresses through which the cluster is found first."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from aktor.consumer.configuration.checks import refusal
from aktor.consumer.configuration.secrets import MASK
from aktor.errors import ConfigurationError
from aktor.settings import DEFAULT_PORT

__all__ = ["addresses", "servers"]


def servers(name: str, value: Any) -> str | list[Any]:
    """Check the kind of the setting, and keep it as it was given."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bytes, Mapping)) or not isinstance(value, Iterable):
        raise refusal(
            name, _masked(value), "'host:port', several with commas between, or a list of such"
        )
    return list(value)


def addresses(given: str | list[Any]) -> tuple[tuple[str, int], ...]:
    """The (host, port) of each of the servers; raises ConfigurationError where it cannot be."""
    given = [given] if isinstance(given, str) else given
    # A list of one text from the environment, "a:9092,b:9092", has two servers, and "a:9092," has
    # one. (kafka-python finds no broker in the first, and takes the empty one for this machine.)
    items: list[Any] = []
    for item in given:
        items += item.split(",") if isinstance(item, str) else [item]
    items = [item for item in items if not isinstance(item, str) or item.strip()]
    if not items:
        raise ConfigurationError("bootstrap_servers is empty: name at least one broker, host:port")
    return tuple(_address(item) for item in items)


def _address(item: Any) -> tuple[str, int]:
    """'host', 'host:9092', '[::1]:9092', '::1', each also after 'PROTOCOL://'."""
    if not isinstance(item, str):
        shown = _masked(item)
        raise refusal("an item of bootstrap_servers", shown, "a str such as 'host:9092'")
    text = re.sub(r"^.*://", "", item.strip())
    bracketed = re.fullmatch(r"\[([\w:.%-]+)\](?::(\d{1,5}))?", text)
    named = re.fullmatch(r"([\w.-]+)(?::(\d{1,5}))?", text)
    match = bracketed or named
    if match is None and not _is_ipv6(text):
        shown = _masked(item)
        raise refusal("an item of bootstrap_servers", shown, "'host', 'host:9092' or '[::1]:9092'")
    if match is None:
        return text, DEFAULT_PORT
    port = int(match[2]) if match[2] else DEFAULT_PORT
    if not 0 < port < 65_536:
        raise refusal("an item of bootstrap_servers", item, "given a port from 1 to 65535")
    return match[1], port


def _masked(given: Any) -> Any:
    """An address as it was given, without a user and a password (as in a URL, but perhaps without
    its beginning); there may be several, one a line."""
    if isinstance(given, bytes):
        return _masked(given.decode(errors="replace")).encode()
    if isinstance(given, str):
        return re.sub(r"^(.*?://)?.*@", rf"\1{MASK}@", given, flags=re.DOTALL)
    return given


def _is_ipv6(text: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET6, text)
    except (OSError, ValueError):
        return False
    return True
