"""Who handles which message: declared above each handler, collected once per class.

    @handles(CoordinatorFound)
    def on_coordinator_found(self, found: CoordinatorFound) -> None: ...

So the list of what an actor understands is the list of its handlers, the type checker compares
each declaration with the handler's parameter, and a search for a message finds who handles it.

The end of a request is declared the same way: its response, or the failure if there is none.

    @answers_to(HeartbeatRequest)
    def on_heartbeat_answer(self, received: ResponseReceived) -> None: ...

    @failure_of(HeartbeatRequest)
    def on_heartbeat_failed(self, failed: RequestFailed) -> None: ...

Where a manager sends requests of one type for several purposes, the type of their note (the
`context` of `Request`) tells for which: `@answers_to(MetadataRequest, note=QuestionSent)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar, overload

from aktor.events.lifecycle import Ticked
from aktor.events.message import Message
from aktor.events.network import Request, RequestFailed, ResponseReceived
from aktor.trace import Trace

__all__ = [
    "Handler",
    "MessageHandler",
    "after_restart_of",
    "answers_to",
    "failure_handlers",
    "failure_of",
    "handles",
    "mending",
    "response_handlers",
]


class Outgoing:
    """Owns the messages that an actor says and, if it is a manager, the requests that it sends,
    until they are taken."""

    __slots__ = ("_ticked", "requests", "said")

    def __init__(self) -> None:
        #: The messages that were said and not taken yet.
        self.said: list[Message] = []
        #: The requests that were sent and not taken yet.
        self.requests: list[Request] = []
        #: The last answer to a tick, if it had no requests: the next answer is mostly equal.
        self._ticked: Ticked | None = None

    def say(self, message: Message) -> None:
        """Add a message."""
        self.said.append(message)

    def send(self, request: Request) -> None:
        """Add a request."""
        self.requests.append(request)

    def take_messages(self) -> list[Message]:
        """Remove and return the messages."""
        said, self.said = self.said, []
        return said

    def take_requests(self) -> tuple[Request, ...]:
        """Remove and return the requests."""
        sent, self.requests = tuple(self.requests), []
        return sent

    def say_first(self, messages: Iterable[Message]) -> None:
        """Put these messages in front of the others."""
        self.said[:0] = messages

    def repeat_answer(self, wake_at: float) -> bool:
        """Append the answer to the last tick, if it is the answer to this one, too."""
        last = self._ticked
        if last is None or self.requests or wake_at != last.wake_at:
            return False
        self.said.append(last)
        return True

    def answer_tick(self, ticked: Ticked) -> None:
        """Append the answer to a tick."""
        self._ticked = None if ticked.requests else ticked
        self.said.append(ticked)


#: A method that handles a message.
Handler: TypeAlias = Callable[[Any], None]

#: Requests of this type, with a note of that type; with any note if it is None.
Purpose: TypeAlias = tuple[type, type | None]

S = TypeVar("S")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_MESSAGES: Final = "__handles__"
_RESPONSES: Final = "__answers_to__"
_FAILURES: Final = "__failure_of__"
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


def answers_to(
    *requests: Any, note: type | None = None
) -> Callable[[Callable[[S, ResponseReceived], R]], Callable[[S, ResponseReceived], R]]:
    """Declare the protocol requests whose `ResponseReceived` a method takes."""
    return _marked(_RESPONSES, tuple((request, note) for request in requests))


def failure_of(
    *requests: Any, note: type | None = None
) -> Callable[[Callable[[S, RequestFailed], R]], Callable[[S, RequestFailed], R]]:
    """Declare the protocol requests whose `RequestFailed` a method takes."""
    return _marked(_FAILURES, tuple((request, note) for request in requests))


def after_restart_of(*actors: str) -> Callable[[Callable[[S], R]], Callable[[S], R]]:
    """Declare the actors after whose restart a method is called: questions to them are lost, and
    it asks again or gives up."""
    return _marked(_ACTORS, actors)


def _marked(mark: str, values: tuple[Any, ...]) -> Callable[[Any], Any]:
    def declare(handler: Any) -> Any:
        setattr(handler, mark, values)
        return handler

    return declare


def handlers(of: type) -> Mapping[type, str]:
    """Message type -> the name of its handler in this class, with all that it inherits."""
    return _collected(of, _MESSAGES)


def response_handlers(of: type) -> Mapping[Purpose, str]:
    """The purpose of a protocol request -> the name of the handler of its response."""
    return _collected(of, _RESPONSES)


def failure_handlers(of: type) -> Mapping[Purpose, str]:
    """The purpose of a protocol request -> the name of the handler if there is no response."""
    return _collected(of, _FAILURES)


def mending(of: type) -> Mapping[str, str]:
    """Actor -> the name of the handler that is called after this actor's restart."""
    return _collected(of, _ACTORS)


def bound(actor: object, names: Mapping[Any, str]) -> dict[Any, Handler]:
    """One of the mappings above, with the bound methods of this actor in place of names."""
    return {key: getattr(actor, name) for key, name in names.items()}


class Handlers:
    """Owns the methods by which one actor handles messages, the responses to its requests and their
    failures, and its `duties`, which it does as time passes."""

    __slots__ = ("_failures", "_responses", "duties", "of_message")

    def __init__(self, actor: object, duties: tuple[Callable[..., float], ...]) -> None:
        self.duties = duties
        #: Message type -> method.
        self.of_message = bound(actor, handlers(type(actor)))
        self._responses = bound(actor, response_handlers(type(actor)))
        self._failures = bound(actor, failure_handlers(type(actor)))

    def put(self, handler: Handler, kinds: Iterable[type]) -> None:
        """Handle these types of messages by this method."""
        self.of_message.update(dict.fromkeys(kinds, handler))

    def wrap(self, within: Callable[[Handler], Handler], *, but: Collection[type] = ()) -> None:
        """Put the method that handles a message into another one, for all types but these."""
        for kind, handler in self.of_message.items():
            if kind not in but:
                self.of_message[kind] = within(handler)

    def of_response(self, request: Request) -> Handler:
        """The method that takes the response to this request."""
        return _for_purpose(request, self._responses)

    def of_failure(self, request: Request) -> Handler:
        """The method that is told that this request gets no response."""
        return _for_purpose(request, self._failures)


class MessageHandler:
    """Base of the classes that handle messages: each actor, and the application's port.

    A message is handled in one way: by the method that declares its type. The messages of that
    method collect in `_outgoing`.
    """

    log: Trace

    def __init__(self) -> None:
        self._handlers = Handlers(self, self.duties())
        self._handler_of = self._handlers.of_message.get
        self._outgoing = Outgoing()

    @classmethod
    def understands(cls) -> frozenset[type]:
        """The message types for which there is a handler."""
        return frozenset(handlers(cls))

    def duties(self) -> tuple[Callable[..., float], ...]:
        """The duties, in the order in which they are done. Read once."""
        return ()

    def handle(self, message: Message) -> list[Message]:
        """Handle one message; returns the messages to send."""
        (self._handler_of(type(message)) or self.drop)(message)
        return self._outgoing.take_messages()

    def _say(self, message: Message) -> None:
        """Send this message when the handler returns, to each receiver that the routes name."""
        self._outgoing.say(message)

    def drop(self, message: Message) -> None:
        """A dead letter: there is no handler for this type of message. Trace it."""
        self.log.warning("message.dropped", message_type=type(message).__name__, because="unknown")


def _for_purpose(request: Request, methods: Mapping[Purpose, Handler]) -> Handler:
    kind = type(request.body)
    return methods.get((kind, type(request.context))) or methods[kind, None]


@functools.cache
def _collected(of: type, mark: str) -> Mapping[Any, str]:
    return dict(_declared(of, mark))


def _declared(of: type, mark: str) -> Iterator[tuple[Any, str]]:
    for base in reversed(of.__mro__):
        for name, member in vars(base).items():
            for value in getattr(member, mark, ()):
                yield value, name
