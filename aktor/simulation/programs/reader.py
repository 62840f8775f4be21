"""The readers of a group: the code of ordinary members, as `Simulation.consumers` makes them.

What they do besides reading is drawn from the seed: how they take their records (`ways`), who
stores the offsets, what their rebalance listener does (`listeners`), and now and then a call that
an application might make (`habits`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from aktor.consumer.core.subscription import SubscriptionPattern
from aktor.simulation.programs.habits import HABITS
from aktor.simulation.programs.listeners import LISTENERS
from aktor.simulation.programs.loop import Loop, LoopByHand, Manner
from aktor.simulation.programs.service import Service
from aktor.simulation.programs.ways import SETTINGS, WAYS, WAYS_BY_COLUMNS, WAYS_BY_TURNS
from aktor.simulation.world.world import World

__all__ = ["Reader"]

#: The way of a `Service`.
ASYNCIO: Final = "asyncio"


class Reader:
    """The code of a group's members.

    `by_hand`: they assign themselves what they read. `looked_at`: another thread of theirs looks at
    the consumer. `each` makes of `configs` the settings of the member with this number.
    """

    def __init__(
        self,
        simulation: World,
        group: str | None,
        topics: Sequence[str] | SubscriptionPattern,
        configs: dict[str, Any],
        *,
        kind: str = "quiet",
        way: str = "polls",
        by_hand: bool = False,
        looked_at: bool = False,
        each: Callable[[dict[str, Any], int], dict[str, Any]] = lambda configs, _: configs,
    ) -> None:
        self._simulation = simulation
        self._manner = Manner(
            topics=topics,
            listener=LISTENERS[kind],
            way={**WAYS, **WAYS_BY_TURNS, **WAYS_BY_COLUMNS, ASYNCIO: WAYS["polls"]}[way],
            habits=HABITS,
            elsewhere={},
        )
        self._in_event_loop = way == ASYNCIO
        if self._in_event_loop and (by_hand or looked_at):
            raise ValueError("members of asyncio subscribe, and have one thread")
        self._group = group
        self._configs = configs
        self._by_hand = by_hand
        self._looked_at = looked_at
        self._each = each

    def run(self, number: int = 0) -> Coroutine[Any, Any, None] | None:
        """The code of the member with this number, until the end of the simulation."""
        if self._in_event_loop:
            topics = self._manner.topics
            return Service(self._simulation, topics, lambda: self._config(number)).run()
        kind = LoopByHand if self._by_hand else Loop
        loop = kind(self._simulation, self._manner, lambda: self._config(number))
        if self._looked_at:
            self._simulation.me.also(loop.look_on)
        loop.run()
        return None

    def _config(self, number: int) -> dict[str, Any]:
        return {
            "bootstrap_servers": self._simulation.bootstrap_servers,
            "group_id": self._group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            "metadata_max_age_ms": 10_000,
            "bootstrap_timeout_ms": 0,  # its errors come from `turn`, which hears them
            **SETTINGS,
            **self._each(self._configs, number),
        }
