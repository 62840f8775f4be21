"""What a rebalance waited for: which member, or which broker, and what it did meanwhile.

In a classic group all wait in JoinGroup until each member has joined. In a KIP-848 group a member
waits for the partitions that another one has yet to release. So a callback, an application that
does not poll, or a coordinator that does not answer holds members whose own traces do not say why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aktor.trace.rebalances.parts import Name, Part

__all__ = ["SESSION", "Hold", "called", "hold_of", "seconds"]

#: A wait is told if it is at least this part of the rebalance, and so many milliseconds.
SHARE: Final = 0.2
LEAST: Final = 50.0

#: How a wait is told.
_WORDS: Final = {
    "poll": "its application did not poll for {}",
    "commit": "its commit took {}",
    "revoked_callback": "its revoked callback took {}",
    "assigned_callback": "its assigned callback took {}",
    "lost_callback": "its lost callback took {}",
}

#: What a member did that did not come: the others wait until its session is over.
SESSION: Final = "session"
_GONE: Final = (
    "{} held it: all waited for a process of it for {}, until the coordinator took it out of the"
    " group (its trace ends before: it was killed, stopped or cut off)"
)


@dataclass(frozen=True, slots=True)
class Hold:
    """The longest wait of a rebalance."""

    #: The member; of a coordinator the member that waited for it.
    name: Name
    #: "coordinator", "poll", "commit", a callback or `SESSION`; and milliseconds.
    what: str
    ms: float
    #: All of it, for people.
    words: str


def hold_of(
    parts: Iterable[Part], took: float, gone: tuple[Name, float] | None = None
) -> Hold | None:
    """What a rebalance of `took` milliseconds waited for; None if the traces show no long wait.
    `gone`: a member that all waited for and that did not come, and for how many milliseconds."""
    parts = sorted(parts, key=lambda part: (part.began, part.source))
    waits = [
        (ms, part, what)
        for part in parts
        for what, ms in {**part.waits, **part.callbacks}.items()
        if ms >= max(LEAST, SHARE * took)
    ]
    longest = max(waits, key=lambda wait: wait[0], default=None)
    if gone is not None and gone[1] >= max(LEAST, SHARE * took, longest[0] if longest else 0.0):
        return Hold(gone[0], SESSION, gone[1], _GONE.format(called(gone[0]), seconds(gone[1])))
    if longest is None:
        return None
    ms, part, what = longest
    ms = round(ms, 3)
    if what == "coordinator":
        words = f"it waited {seconds(ms)} for the coordinator, {part.coordinator}"
        return Hold(part.name, what, ms, words)
    told = [
        _WORDS[what].format(seconds(ms))
        for ms, of, what in waits
        if of.source == part.source and what in _WORDS
    ]
    if part.late_poll is not None:
        told.append(f"it left the group: {part.late_poll}")
    return Hold(part.name, what, ms, f"{called(part.name)} held it: {', '.join(told)}")


def called(name: Name) -> str:
    """A member, for people."""
    return f"{name[0] or 'a member'}{f' on {name[1]}' if name[1] else ''}"


def seconds(ms: float) -> str:
    """A duration, for people."""
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
