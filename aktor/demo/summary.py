"""The summary: the verdict as lines of a name and a value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from aktor.demo.referee import Gap, Verdict

__all__ = ["Line", "summary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line; `good` says whether it speaks for (True) or against (False) us, or neither."""

    name: str
    value: str
    good: bool | None = None


def summary(verdict: Verdict) -> Iterator[Line]:
    """The verdict, the figures first, what is wrong last."""
    once = verdict.delivered - _repeated(verdict)
    yield Line(name="records written", value=_number(verdict.written))
    yield Line(name="records read", value=_number(verdict.deliveries))
    yield Line(name="  read once", value=_number(max(0, once)))
    yield Line(
        name="  repeated because of the kill",
        value=f"{_number(verdict.repeated_by_kill)} (read by the victim, not yet committed)",
    )
    yield Line(
        name="  repeated for no reason",
        value=_number(verdict.repeated_otherwise),
        good=verdict.repeated_otherwise == 0,
    )
    yield Line(name="records lost", value=_number(verdict.lost), good=verdict.lost == 0)
    yield Line(
        name="lag of the group at the end",
        value="unknown" if verdict.lag is None else _number(verdict.lag),
        good=verdict.lag == 0,
    )
    yield Line(name="longest standstill, victim's", value=_gap(verdict.gap_of_killed))
    yield Line(name="longest standstill, others'", value=_gap(verdict.gap_of_others))
    for rebalance in verdict.rebalances:
        yield Line(
            name=f"rebalance to generation {rebalance.generation}",
            value=f"{rebalance.ms:.0f} ms: {rebalance.trigger}",
        )
    for fault in verdict.faults:
        yield Line(name="WRONG", value=fault, good=False)
    if not verdict.faults:
        yield Line(name="verdict", value="everything as it must be", good=True)


def _repeated(verdict: Verdict) -> int:
    return verdict.repeated_by_kill + verdict.repeated_otherwise


def _number(count: int) -> str:
    return f"{count:,}"


def _gap(gap: Gap | None) -> str:
    return "none" if gap is None else f"{gap.seconds * 1000:.0f} ms, partition {gap.partition}"
