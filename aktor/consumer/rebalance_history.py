"""A consumer's own part in the last rebalances of its group."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aktor.consumer.loaded import Loaded
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.trace.rebalances.rows import MemberPart

__all__ = ["REBALANCES_KEPT", "RebalanceHistory"]

#: The rebalances that are kept.
REBALANCES_KEPT: Final = 50

#: Events of so many rebalances are some twenty each.
_EVENTS_KEPT: Final = 50 * REBALANCES_KEPT

#: Of which the history is made: changes of state, of which there are a few in a rebalance.
_WANTED: Final = frozenset(
    {"callback.failed", "callback.finished", "coordinator.found", "coordinator.lost"}
    | {"member.left", "member.lost", "membership.moved", "partitions.assigned"}
    | {"partitions.released", "poll.late", "rebalance.completed", "rebalance.delayed"}
    | {"rebalance.joined", "rebalance.triggered", "subscription.matched"}
)


class _Loaded(NamedTuple):
    tell: Callable[[Iterable[dict[str, Any]]], tuple[list[Any], Any]]
    part: type[MemberPart]


def _load() -> _Loaded:
    """Most consumers are never asked."""
    from aktor.trace.rebalances import tell
    from aktor.trace.rebalances.rows import MemberPart

    return _Loaded(tell, MemberPart)


_loaded: Final = Loaded(_load)


class RebalanceHistory:
    """Owns the events of the last rebalances. Rows are made of them when somebody asks."""

    def __init__(self, trace: Trace) -> None:
        self._events = deque[dict[str, Any]](maxlen=_EVENTS_KEPT)
        trace.subscribe(self._events.append, only=_WANTED)

    def rows(self) -> list[MemberPart]:
        """The member's parts that are over, the oldest first."""
        loaded = _loaded()
        events = [
            {**event, "source": "", "line": number}
            for number, event in enumerate(self._events.copy())
            if event.get("group") is not None
        ]
        parts = [row for row in loaded.tell(events)[0] if isinstance(row, loaded.part)]
        over = [part for part in parts if part.outcome != "unfinished"]
        return sorted(over, key=lambda part: part.began)[-REBALANCES_KEPT:]
