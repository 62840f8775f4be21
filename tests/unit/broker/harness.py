"""What tests of the broker's state machines have in common: time that is passed in, a journal, a
cluster's topics, and requests that take the way over the wire and back."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code
from aktor.broker.wire import APIS, read_request, write_response

NOW = 1_700_000_000.0
DAY = 24 * 3600.0


class Journal:
    """Keeps values as a file would: as text."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, tuple[str | int, ...]], str] = {}
        self.puts = 0

    def put(self, kind: str, key: tuple[str | int, ...], value: Any | None) -> None:
        self.puts += 1
        if value is None:
            self.texts.pop((kind, key), None)
        else:
            self.texts[kind, key] = json.dumps(value)

    def values(self) -> dict[tuple[str, tuple[str | int, ...]], Any]:
        return {key: json.loads(text) for key, text in self.texts.items()}

    def value(self, kind: str, *key: str | int) -> Any:
        """What is kept under this key; None: nothing."""
        return self.values().get((kind, key))


class Topics:
    """The topics of a cluster that has nothing else; a topic that is made anew has a new id."""

    def __init__(self, **partitions: int) -> None:
        self.forbidden: set[str] = set()
        self.version = 0
        self._made = 0
        self._topics: dict[str, tuple[UUID, int]] = {}
        for name, count in partitions.items():
            self.create(name, count)

    def create(self, name: str, partitions: int) -> None:
        self._made += 1
        self.version += 1
        self._topics[name] = (UUID(int=self._made), partitions)

    def grow(self, name: str, partitions: int) -> None:
        self.version += 1
        self._topics[name] = (self._topics[name][0], partitions)

    def delete(self, name: str) -> UUID:
        """The id that it had."""
        self.version += 1
        return self._topics.pop(name)[0]

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._topics))

    def topic_id(self, name: str) -> UUID | None:
        return self._topics[name][0] if name in self._topics else None

    def name(self, topic_id: UUID) -> str | None:
        return next((n for n, (known, _) in self._topics.items() if known == topic_id), None)

    def partitions(self, name: str) -> int:
        return self._topics[name][1] if name in self._topics else 0


class Asked:
    """A request that was sent, and its answer as the client reads it, as soon as there is one."""

    def __init__(self, api: Any, version: int) -> None:
        self.api = api
        self.answers: list[Any] = []
        self._version = version

    def take(self, response: Any) -> None:
        if response is None or response is CLOSE:
            self.answers.append(response)
            return
        frame = write_response(self.api, self._version, 1, response)
        read = self.api.response.decode(frame[4:], version=self._version, header=True)
        self.answers.append(read)

    @property
    def waits(self) -> bool:
        return not self.answers

    @property
    def answer(self) -> Any:
        assert len(self.answers) == 1, f"answered {len(self.answers)} times"
        return self.answers[0]

    @property
    def code(self) -> Code:
        return Code(self.answer.error_code)


def a_call(
    message: Any, version: int, *, now: float, client_id: str = "app", **where: Any
) -> tuple[Call, Asked]:
    """A request as it is after a way through the network, and what becomes of it."""
    message.API_VERSION = version
    message.with_header(1, client_id=client_id)
    frame = message.encode(header=True, framed=True)
    incoming = read_request(memoryview(frame)[4:])
    asked = Asked(APIS[type(message).API_KEY], version)
    call = Call(
        incoming.request,
        answer=asked.take,
        version=version,
        now=now,
        client_id=incoming.client_id,
        **where,
    )
    return call, asked


class Machine(Protocol):
    """A state machine that says when it is due."""

    def wake_at(self) -> float: ...

    def tick(self, now: float) -> None: ...


def pass_time(machine: Machine, now: float, seconds: float) -> float:
    """Let time go by, and the machine do what is due when it is due. What time it is then."""
    end = now + seconds
    turns_now = 0
    while (at := machine.wake_at()) <= end:
        turns_now = turns_now + 1 if at <= now else 0
        assert turns_now < 1000, f"what is due at {at} is never done"
        now = max(at, now)
        machine.tick(now)
    return end


class World:
    """Owns the time, and the journal of a state machine that can be restarted."""

    def __init__(self, seed: int = 0) -> None:
        self.now = NOW
        self.rng = random.Random(seed)
        self.journal = Journal()

    @property
    def machine(self) -> Machine:
        """What time passes for."""
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        """Let time go by, and what is due be done when it is due."""
        self.now = pass_time(self.machine, self.now, seconds)

    def send(
        self,
        handler: Callable[..., object],
        message: Any,
        version: int,
        client_id: str = "app",
        **details: Any,
    ) -> Asked:
        """Let a handler have the request as it is after a way through the network."""
        call, asked = a_call(message, version, now=self.now, client_id=client_id)
        handler(call, **details)
        return asked
