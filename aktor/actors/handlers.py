"""Who handles which message: declared above each handler, collected once per class.

    @handles(CoordinatorFound)
    def on_coordinator_found(self, found: CoordinatorFound) -> None: ...

So the list of what an actor understands is the list of its handlers, the type checker compares
each declaration with the handler's parameter, and a search for a message finds who handles it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar, overload

__all__ = [
    "after_restart_of",
    "answers_to",
    "bound",
    "handlers",
    "handles",
    "mending",
    "response_handlers",
]

S = TypeVar("S")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., Any])

_MESSAGES: Final = "__handles__"
_REQUESTS: Final = "__answers_to__"
_ACTORS: Final = "__after_restart_of__"


@overload
def handles(_: type[A], /) -> Callable[[Callable[[S, A], R]], Callable[[S, A], R]]: ...
@overload
def handles(
    _: type[A], __: type[B], /
) -> Callable[[Callable[[S, A | B], R]], Callable[[S, A | B], R]]: ...
@overload
def handles(
    _: type[A], __: type[B], ___: type[C], /
) -> Callable[[Callable[[S, A | B | C], R]], Callable[[S, A | B | C], R]]: ...
def handles(*kinds: type) -> Callable[[Any], Any]:
    """Declare the messages that a method takes as its only argument."""
    return _marked(_MESSAGES, kinds)


def answers_to(*requests: Any) -> Callable[[F], F]:
    """Declare the protocol requests whose `ResponseReceived` a method takes."""
    return _marked(_REQUESTS, requests)


def after_restart_of(*actors: str) -> Callable[[F], F]:
    """Declare the actors whose restart a method mends: what they had been asked is lost."""
    return _marked(_ACTORS, actors)


def _marked(mark: str, values: tuple[Any, ...]) -> Callable[[Any], Any]:
    def declare(handler: Any) -> Any:
        setattr(handler, mark, values)
        return handler

    return declare


def handlers(of: type) -> Mapping[type, str]:
    """Message type -> the name of its handler in this class, with all that it inherits."""
    return _collected(of, _MESSAGES)


def response_handlers(of: type) -> Mapping[type, str]:
    """The class of a protocol request -> the name of the handler of its response."""
    return _collected(of, _REQUESTS)


def mending(of: type) -> Mapping[str, str]:
    """Actor -> the name of the handler that mends what its restart has lost."""
    return _collected(of, _ACTORS)


def bound(actor: object, names: Mapping[Any, str]) -> dict[Any, Callable[[Any], None]]:
    """One of the mappings above with the methods of this actor: the table it dispatches by."""
    return {key: getattr(actor, name) for key, name in names.items()}


@functools.cache
def _collected(of: type, mark: str) -> Mapping[Any, str]:
    return dict(_declared(of, mark))


def _declared(of: type, mark: str) -> Iterator[tuple[Any, str]]:
    for base in reversed(of.__mro__):
        for name, member in vars(base).items():
            for value in getattr(member, mark, ()):
                yield value, name
