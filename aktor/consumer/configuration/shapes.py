"""What a setting may be that is a function or an object: for type checkers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, TypeVar

from aktor.structs import OffsetAndMetadata, TopicPartition

__all__ = ["Deserializer", "Deserializes", "OnCommit", "TokenProvider"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Deserializer(Protocol[T_co]):
    """An object that makes a key or a value, as `kafka.serializer.Deserializer` does."""

    def deserialize(self, topic: str, headers: Any, data: bytes, /) -> T_co:
        """What the user sees of these bytes. `headers` are a list of names and bytes (or None)."""
        ...


#: Such an object, or a function of the bytes. (They are called with None, too: for tombstones, and
#: for keys that are missing. But `json.loads`, which most programs give, takes bytes only.)
Deserializes: TypeAlias = Deserializer[T] | Callable[[bytes], T]

#: Called when a commit is over, with None or the reason why it failed.
OnCommit: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], Exception | None], object]


class TokenProvider(Protocol):
    """Gives the tokens of OAUTHBEARER. (`aktor.aio` also takes one with a coroutine function.)"""

    def token(self) -> str | Awaitable[str]:
        """A token that is valid now."""
        ...
