"""What a rebalance waited for: which member, or which broker, and what it did meanwhile.

In a classic group all wait in JoinGroup until each member has joined. In a KIP-848 group a member
waits for the partitions that another one has yet to release. So a callback, an application that
does not poll, or a coordinator that does not answer holds members whose own traces do not say why.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aktor.trace.rebalances.parts import KILLED, Name, Part

__all__ = ["SESSION", "Gone", "Hold", "called", "hold_of", "not_there", "now_of"]
__all__ += ["of_group", "seconds"]

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

#: The same, if it is so yet.
_WORDS_NOW: Final = {
    "poll": "its application has not polled for {}",
    "commit": "its commit has not come to its end for {}",
    "revoked_callback": "its revoked callback has not returned for {}",
    "assigned_callback": "its assigned callback has not returned for {}",
    "lost_callback": "its lost callback has not returned for {}",
}

#: It may be gone.
_QUIET: Final = " (its trace has told nothing for the last {}: its process may be gone)"

#: Where a process was when it was gone.
_WITHIN: Final = {
    "poll": ", {} after its application should have polled",
    "commit": ", {} into a commit",
    "revoked_callback": ", {} into its revoked callback",
    "assigned_callback": ", {} into its assigned callback",
    "lost_callback": ", {} into its lost callback",
}

#: What a member did that did not come: the others wait until its session is over.
SESSION: Final = "session"
_GONE: Final = (
    "{} held it: all waited for a process of it for {}, until the coordinator took it out of the"
    " group"
)
_GONE_TOO: Final = "then all waited for {} for {}, until the coordinator took it out of the group"
_GONE_ANYWAY: Final = "the coordinator has taken {} out of the group"
_WHY_GONE: Final = f" (its trace ends before: {KILLED}{{}})"


@dataclass(frozen=True, slots=True)
class Hold:
    """The longest wait of a rebalance, or what it waits for now."""

    #: The member; of a coordinator the member that waited for it.
    name: Name
    #: "coordinator", "poll", "commit", a callback or `SESSION`; and milliseconds.
    what: str
    ms: float
    #: All of it, for people.
    words: str


@dataclass(frozen=True, slots=True)
class Gone:
    """A member that all waited for and that did not come: for how many milliseconds; what its
    process did last, for how many; and why the coordinator did not hear of it, as it has told
    since."""

    name: Name
    ms: float
    within: tuple[str, float] | None = None
    because: str = ""

    def hold(self) -> Hold:
        """That it held the rebalance."""
        words = _GONE.format(called(self.name), seconds(self.ms)) + self._why
        return Hold(self.name, SESSION, self.ms, words)

    @property
    def beside(self) -> str:
        """That it was waited for, too, or is gone, though nobody waited for it."""
        if self.ms < LEAST:
            return _GONE_ANYWAY.format(called(self.name)) + self._why
        return _GONE_TOO.format(called(self.name), seconds(self.ms)) + self._why

    @property
    def _why(self) -> str:
        if self.because:
            return f" ({self.because})"
        within = ""
        if self.within is not None:
            what, ms = self.within
            within = _WITHIN[what].format(seconds(ms))
        return _WHY_GONE.format(within)


#: Of a member that was not told that its group rebalances, as its trace has it.
_NOT_THERE: Final = (
    "{} holds it: it has not joined, and its trace has told nothing for the last {} (its process"
    " may be gone)"
)


def not_there(name: Name, quiet: float) -> Hold:
    """A classic group waits for this member, whose trace has told nothing for so long."""
    return Hold(name, SESSION, quiet, _NOT_THERE.format(called(name), seconds(quiet)))


def now_of(what: str, ms: float, quiet: float = 0.0) -> str:
    """What a member waits for, or does, for so many milliseconds. Its trace has told nothing for
    the last `quiet` of them."""
    return f"{_WORDS_NOW[what].format(seconds(ms))}{_QUIET.format(seconds(quiet)) if quiet else ''}"


def hold_of(parts: Iterable[Part], took: float, gone: Gone | None = None) -> Hold | None:
    """What a rebalance of `took` milliseconds waited for; None if the traces show no long wait.
    `gone`: a member that all waited for and that did not come."""
    parts = sorted(parts, key=lambda part: (part.began, part.source))
    waits = [
        (ms, part, what)
        for part in parts
        for what, ms in part.held_in.items()
        if ms >= (LEAST if part.is_pending(what) else max(LEAST, SHARE * took))
    ]
    # Of a rebalance that goes on, what holds it is asked, not what held it before.
    longest = max(waits, key=lambda wait: (wait[1].is_pending(wait[2]), wait[0]), default=None)
    if gone is not None and gone.ms >= max(LEAST, SHARE * took, longest[0] if longest else 0.0):
        return gone.hold()
    if longest is None:
        return None
    ms, part, what = longest
    ms = round(ms, 3)
    if what == "coordinator":
        waited = "has waited" if part.goes_on else "waited"
        words = f"it {waited} {seconds(ms)} for the coordinator, {part.coordinator}"
        return Hold(part.name, what, ms, words)
    told = [
        now_of(what, ms, of.quiet) if of.is_pending(what) else _WORDS[what].format(seconds(ms))
        for ms, of, what in waits
        if of.source == part.source and what in _WORDS
    ]
    if part.late_poll is not None:
        told.append(f"it left the group: {part.late_poll}")
    holds = "holds" if part.is_pending(what) else "held"
    words = f"{called(part.name)} {holds} it: {', '.join(told)}"
    return Hold(part.name, what, ms, words + _besides(part, parts, max(LEAST, SHARE * took)))


def _besides(part: Part, parts: Iterable[Part], least: float) -> str:
    """Who else held it for so long, at another time than this part did."""
    mine = [(since, until) for what, since, until in part.waited_for if what in _WORDS]
    waits = []
    for other in (one for one in parts if one.source != part.source):
        away = [(since, until) for what, since, until in other.waited_for if what not in _WORDS]
        for what, since, until in other.waited_for:
            both = sum(max(0.0, min(until, end) - max(since, start)) for start, end in mine + away)
            alone = 1000 * (until - since - both)
            if alone >= least and what in _WORDS:
                waits.append((alone, called(other.name), what, 1000 * (until - since)))
    if not waits:
        return ""
    _, name, what, ms = max(waits)
    return f"; {name} held it, too: {_WORDS[what].format(seconds(ms))}"


def called(name: Name) -> str:
    """A member, for people."""
    return f"{name[0] or 'a member'}{f' on {name[1]}' if name[1] else ''}"


def of_group(group: str) -> str:
    """Whose rows these are, for people."""
    return group or "without a group"


def seconds(ms: float) -> str:
    """A duration, for people."""
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
