"""A rebalance in one sentence, for people."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aktor.trace.rebalances.balance import Moves
from aktor.trace.rebalances.causes import Cause
from aktor.trace.rebalances.departures import Departure
from aktor.trace.rebalances.holds import Hold, called, seconds
from aktor.trace.rebalances.parts import Name, Part

__all__ = ["UNSEEN", "clocks", "sentence"]

#: So many of those that triggered a rebalance are named.
NAMED: Final = 3

#: What may have been between two owners of a partition.
UNSEEN: Final = "a member without a trace may have had the partition"


def sentence(
    group: str,
    took: float,
    triggers: Sequence[Departure],
    slowest: Part,
    hold: Hold | None,
    outcomes: Mapping[str, int],
    moves: Moves,
    gaps: list[float],
    unseen: int,
    goes_on: bool,
    beside: Sequence[str],
) -> str:
    """All of it in one sentence, for people."""
    if triggers:
        began = _triggered(triggers)
    else:
        began = (
            "what triggered it is in no trace (a session that ran out, a member unseen, or clocks"
            f" that differ){'' if goes_on else _with_others(moves)}"
        )
    words = [f"{group}: {seconds(took)}{' so far' if goes_on else ''}, {began}"]
    if hold is None and goes_on:
        words += _waits_longest(slowest)
    else:
        words += [hold.words] if hold is not None else _done_last(took, slowest)
    words += beside
    if outcomes:
        counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
        words.append(f"not completed by all members: {counted}")
    needless = ""
    if moves.needlessly is not None and moves.moved:
        needless = f" ({moves.needlessly} needlessly)"
    owned = "now" if goes_on else "at the end"
    words.append(f"partitions moved: {moves.moved}{needless}, owned {owned}: {moves.partitions}")
    if moves.unseen:
        are = "member is" if moves.unseen == 1 else "members are"
        words.append(f"{moves.unseen} {are} in no trace")
    if gaps:
        told = f"pauses that are over: {len(gaps)}, the longest {seconds(max(gaps))}"
        words.append(f"{told} (in {unseen} of them {UNSEEN})" if unseen else told)
    return "; ".join(words) + "."


def _triggered(triggers: Sequence[Departure]) -> str:
    """By whom, and why; a reason that is that of the one before is not told again."""
    words, before = "triggered", ""
    for trigger in triggers[:NAMED]:
        nobody = trigger.name == (None, None) and trigger.cause is Cause.METADATA_CHANGE
        why = (trigger.because or trigger.cause.value).rstrip(".")
        who = "the brokers" if nobody else called(trigger.name)
        words += f"{', then' if before else ''} by {who}{'' if why == before else f': {why}'}"
        before = why
    more = len(triggers) - NAMED
    return f"{words}, and by {more} more" if more > 0 else words


def _with_others(moves: Moves) -> str:
    """What is known of members without a trace: they may have had partitions, or have them now."""
    told = (
        (moves.given, "had no owner with a trace before"),
        (moves.taken, "went to no member with a trace"),
    )
    return "".join(
        f"; {count} partition{'' if count == 1 else 's'} {words}" for count, words in told if count
    )


def clocks(parts: Iterable[Part], apart: Mapping[tuple[Name, Name], float]) -> str:
    """Whose times are not those of the others."""
    set_by = {called(part.name): part.clock_set for part in parts if part.clock_set}
    told = [
        f" The clock of {name} was set by {step:+.1f} s meanwhile"
        f"{', or its machine slept' if step > 0 else ''}: these times are in doubt."
        for name, step in set_by.items()
    ]
    for (one, other), by in sorted(apart.items(), key=lambda item: -item[1])[:1]:
        told.append(f" The clocks of {called(one)} and {called(other)} are at least {by:.1f} s")
        told.append(" apart: causes and times are in doubt.")
    return "".join(told)


def _done_last(took: float, slowest: Part) -> list[str]:
    """Who was done last in a rebalance that took so many milliseconds, and what with."""
    phase = max(slowest.spent, key=lambda phase: slowest.spent[phase], default=None)
    spent = slowest.spent[phase] if phase else 0.0
    if not spent:
        return []
    name, own = called(slowest.name), seconds(slowest.duration_ms)
    # A part may begin late: the member is told of it by a heartbeat, or when others are done.
    late = slowest.duration_ms < took / 2
    last = f"{name} was done last{f'; its own part took {own}' if late else f' after {own}'}"
    words = f"{last}, {seconds(spent)} of it in {phase}{_mostly(slowest, spent)}"
    if slowest.refusal is not None:
        words += _refused(slowest)
    return [words]


def _waits_longest(part: Part) -> list[str]:
    """What a member is in, if the rebalance goes on and nothing says who holds it."""
    phase = max(part.spent, key=lambda phase: part.spent[phase], default=None)
    if phase is None or not part.goes_on:
        return []
    words = f"{called(part.name)} has been in it for {seconds(part.duration_ms)}"
    words += f", {seconds(part.spent[phase])} of it in {phase}"
    if part.refusal is not None:
        words += _refused(part)
    return [words]


def _refused(part: Part) -> str:
    times = "once" if part.refused == 1 else f"{part.refused} times"
    # (What the broker adds, and what to do about it, stands in the row of the refusal.)
    because = re.sub(r" \([^()]*\)", "", part.refusal or "").partition("; ")[0]
    return f"; the coordinator refused it {times} or did not answer: {because}"


def _mostly(part: Part, spent: float) -> str:
    """The callback that took at least half of this time."""
    called = [name for name, took in part.callbacks.items() if took >= spent / 2]
    return f", mostly its {called[0].split('_')[0]} callback" if called else ""
