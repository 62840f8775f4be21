"""Members of a group without a consumer: no consumer that lives knows them as its own.

The group gives them partitions, and its rebalances wait for them, until their session is over.
"""

from __future__ import annotations

from typing import Final

from aktor.simulation.simulation import Simulation

__all__ = ["LOOK_EVERY", "NOTED_AFTER", "Strangers"]

#: Virtual seconds between two looks, and for how long a member is nobody's before it is noted: an
#: answer that makes or ends a member may be on its way.
LOOK_EVERY: Final = 0.5
NOTED_AFTER: Final = 3.0


class Strangers:
    """Owns since when each member is nobody's. Static ones are left out: they are meant to stay."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._since: dict[tuple[str, str], float] = {}
        self._noted: set[tuple[str, str]] = set()

    def watch(self) -> None:
        """From now on, look now and then."""
        self._look()
        self._simulation.scheduler.after(LOOK_EVERY, self.watch)

    def _look(self) -> None:
        now, strangers = self._simulation.now, self._strangers()
        self._since = {key: self._since.get(key, now) for key in strangers}
        self._noted &= strangers.keys()
        for key, since in self._since.items():
            if now - since > NOTED_AFTER and key not in self._noted:
                self._noted.add(key)
                group, member_id = key
                self._simulation.history.note(
                    "group.has_stranger",
                    strangers[key],
                    group=group,
                    member_id=member_id,
                    since=round(since, 3),
                )

    def _strangers(self) -> dict[tuple[str, str], str]:
        """Group and member id of each, and the consumer that made it."""
        brokers = self._simulation.brokers
        looked_after = {
            member_id
            for member in self._simulation.members
            if not member.gone
            for host in member.hosts
            for member_id in host.looks_after
        }
        return {
            (group, member.member_id): consumer
            for group in self._simulation.groups
            for consumer, member in brokers.members_by_consumer(group)
            if member.group_instance_id is None and member.member_id not in looked_after
        }
