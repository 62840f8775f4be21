"""The addresses of one name: in which order they are tried, and which of them connects first.

As in RFC 8305: IPv6 and IPv4 take turns, and if an address does not answer, the next one is tried
beside it after a quarter of a second. Which address worked, or failed, is remembered (KIP-302): the
next attempt begins with the one that worked, or after the one that failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, Final, Generic, TypeVar

from kafka.future import Future

__all__ = ["HEAD_START", "Address", "AddressBook", "Race", "Resolver", "head_start"]

#: How long an address may take before the next one is tried beside it.
HEAD_START: Final = 0.25

#: What `socket.getaddrinfo` returns for each address.
Address = tuple[int, int, int, str, Any]

#: Called as `socket.getaddrinfo` is.
Resolver = Callable[..., Sequence[Any]]

_T = TypeVar("_T")


class AddressBook:
    """Owns the address of each name with which the next attempt begins."""

    def __init__(self) -> None:
        #: By host and port: an address. True: start with this address; False: start after it.
        self._known: dict[tuple[str, int], tuple[Any, bool]] = {}

    def note(self, host: str, port: int, address: Address, *, works: bool) -> None:
        """A connection to this address was opened; or (`works` is False) an attempt or a connection
        to it has ended."""
        self._known[host, port] = address[4], works

    def ordered(self, host: str, port: int, found: Sequence[Address]) -> list[Address]:
        """The addresses that were found for the name, in the order in which to try them."""
        addresses = _families_in_turns(found)
        where, works = self._known.get((host, port), (None, True))
        for at, address in enumerate(addresses):
            if address[4] == where:
                first = at if works else at + 1
                return addresses[first:] + addresses[:first]
        return addresses


def _families_in_turns(addresses: Sequence[Address]) -> list[Address]:
    """IPv6 and IPv4 addresses in turns, beginning with the family that the resolver prefers."""
    families: dict[int, list[Address]] = {}
    for address in addresses:
        families.setdefault(address[0], []).append(address)
    turns = chain.from_iterable(zip_longest(*families.values()))
    return [address for address in turns if address is not None]


def head_start(addresses: int, within: float) -> float:
    """How long each address may take before the next one is tried: each gets its share of the
    time."""
    return min(HEAD_START, within / max(1, addresses))


class Race(Generic[_T]):
    """Owns the attempts to connect to addresses, of which the first to succeed ends the others.

    The next address is tried when the one before has failed, or has had its `head_start` (None:
    when it has failed, no sooner). `loop` is `kafka.net`'s.
    """

    def __init__(
        self,
        loop: Any,
        addresses: Sequence[Address],
        connect: Callable[[Address], Awaitable[_T]],
        *,
        head_start: float | None,
    ) -> None:
        self._loop = loop
        self._connect = connect
        self._head_start = head_start
        self._untried = deque(addresses)
        #: The address that was tried last.
        self.latest: Address | None = None
        self._under_way: dict[Address, Any] = {}
        self._timer: Any = None
        self._failure: Exception = OSError("the name has no address")
        self._over = Future()

    async def winner(self) -> tuple[Address, _T]:
        """The address, and what connecting to it made. Raises the last failure if no address
        connects."""
        self._try_next()
        won, failure = await self._over
        if failure is not None:
            raise failure
        return won  # type: ignore[no-any-return]

    def end(self) -> None:
        """Give up the attempts that are still under way."""
        for task in self._under_way.values():
            self._loop.cancel(task)
        self._under_way.clear()
        self._stop_timer()

    def _try_next(self) -> None:
        self._stop_timer()
        if self._untried:
            self.latest = address = self._untried.popleft()
            self._under_way[address] = self._loop.call_soon(lambda: self._try(address))
        elif not self._under_way:
            self._over.success((None, self._failure))
        if self._untried and self._head_start is not None:
            self._timer = self._loop.call_later(self._head_start, self._on_head_start_over)

    def _on_head_start_over(self) -> None:
        self._timer = None
        self._try_next()

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            self._loop.cancel(timer)

    async def _try(self, address: Address) -> None:
        try:
            made = await self._connect(address)
        except Exception as error:  # bad settings may raise anything
            self._failure = error
            del self._under_way[address]
            self._try_next()
        else:
            del self._under_way[address]
            self.end()
            self._over.success(((address, made), None))
