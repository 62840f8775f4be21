"""What happened in a simulation, in order: the traces of all members, and what the brokers saw.

An event is what the trace has (see docs/trace.md), with `at` (virtual seconds since the beginning)
and `member` (whose it is; "" for what the brokers and the simulation itself did). Same seed, same
history, byte for byte.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Self

__all__ = ["Event", "History", "fingerprint", "told_by"]

Event = dict[str, Any]


def fingerprint(
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[tuple[str, bytes | None]],
    timestamp: int,
) -> int:
    """A number by which a record is known, whoever looks at it: who wrote it, who is given it."""
    return zlib.crc32(repr((key, value, list(headers), timestamp)).encode())


def told_by(member: str, at: float, event: Mapping[str, Any]) -> Event:
    """An event of a consumer's trace as a history has it, where `member` is whose event it is."""
    return {**event, "member_id": event.get("member"), "member": member, "at": at}


class History:
    """Owns the events."""

    def __init__(self, clock: Callable[[], float], start: float) -> None:
        self.events: list[Event] = []
        #: Where in `events` those of each name are, as far as these were looked at.
        self._places: dict[str, list[int]] = {}
        self._looked_at = 0
        self._clock = clock
        self._start = start
        self._over = False

    @classmethod
    def of(cls, events: Iterable[Event]) -> Self:
        """What was told elsewhere: each event has its `at` and its `member`."""
        history = cls(lambda: 0.0, 0.0)
        history.events = sorted(events, key=lambda event: float(event["at"]))
        return history

    def note(self, event: str, member: str = "", **values: Any) -> None:
        """Add something that happened."""
        self.add(member, {"event": event, **values})

    def add(self, member: str, values: Event) -> None:
        """Add an event of a member's trace."""
        if self._over:
            return
        values["at"] = round(self._clock() - self._start, 6)
        values["member"] = member
        self.events.append(values)

    def end(self) -> None:
        """What happens from now on is no part of it."""
        self._over = True

    def named(self, *names: str) -> Iterator[Event]:
        """The events of these names, of those that there are now."""
        events = self.events
        for place in range(self._looked_at, len(events)):
            self._places.setdefault(events[place]["event"], []).append(place)
        self._looked_at = len(events)
        found = [self._places.get(name, []) for name in names]
        return (events[place] for place in sorted(itertools.chain(*found)))

    def text(self) -> str:
        """All of it as JSON lines."""
        return "".join(
            json.dumps(event, sort_keys=True, default=str) + "\n" for event in self.events
        )

    def traces(self, began: float) -> Iterator[Event]:
        """What the members' trace files would hold, if the simulation had begun at this time.

        Each member is on a host of its own, and each consumer has a trace.
        """
        lines: Counter[str] = Counter()
        for event in self.events:
            if "level" not in event:
                continue  # told by the brokers, or by the simulation itself
            who = event["member"]
            lines[who] += 1
            told = {key: value for key, value in event.items() if key not in _OF_HISTORY}
            if event.get("member_id") is not None:
                told["member"] = event["member_id"]
            last = {key: told.pop(key) for key in ("level", "event")}
            if "since" in told:
                told["since"] += began - self._start
            times = {"mono": event["at"], **last, "t": began + event["at"]}
            origin = {"host": f"host-{who.partition('/')[0]}", "trace": _trace_id(who)}
            yield {**told, **times, **origin, "line": lines[who]}

    def last(self, count: int = 30) -> str:
        """The last events, to be read by people."""
        return "\n".join(_line(event) for event in self.events[-count:])


#: What a history adds to the events of a trace.
_OF_HISTORY: Final = ("at", "member", "member_id")


def _trace_id(member: str) -> str:
    return f"{zlib.crc32(member.encode()):08x}"


#: What a line for people begins with, or leaves out.
_OF_A_LINE: Final = ("at", "member", "event", "level", "t", "mono", "seq", "cause")
_OF_THE_MEMBER: Final = ("consumer", "group", "incarnation")


def _line(event: Event) -> str:
    hidden = (*_OF_A_LINE, *_OF_THE_MEMBER)
    rest = " ".join(f"{key}={value}" for key, value in event.items() if key not in hidden)
    return f"{event['at']:10.3f} {event['member'] or '-':8} {event['event']} {rest}"
