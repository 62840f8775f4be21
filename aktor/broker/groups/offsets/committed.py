"""The offsets that groups have committed, and those that wait for the end of a transaction."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from aktor.broker.call import Journal, NoJournal

__all__ = ["Committed", "GroupOffsets", "Place"]

_NO_JOURNAL: Final = NoJournal()

#: What is kept: under (group, topic, partition), and under (group, producer id, topic, partition).
_OFFSET: Final = "offset"
_PENDING: Final = "pending-offset"

#: Topic and partition.
Place: TypeAlias = tuple[str, int]

_Offsets: TypeAlias = dict[Place, "Committed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """What one commit says of one partition (Kafka's OffsetAndMetadata).

    committed_at, expires_at: seconds since the epoch; without expires_at the broker's retention
    counts. topic_id: hexadecimal, "" if unknown. number: commits in the order they came.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at: float
    expires_at: float | None = None
    topic_id: str = ""
    number: int = 0

    def to_json(self) -> dict[str, Any]:
        """What is kept of it: the arguments that make it."""
        return {
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "metadata": self.metadata,
            "committed_at": self.committed_at,
            "expires_at": self.expires_at,
            "topic_id": self.topic_id,
            "number": self.number,
        }


class GroupOffsets:
    """Owns the committed offsets of all groups, and the pending ones of open transactions."""

    def __init__(self, journal: Journal = _NO_JOURNAL) -> None:
        self._journal = journal
        self._committed: dict[str, _Offsets] = {}
        #: By group, then by producer id.
        self._pending: dict[str, dict[int, _Offsets]] = {}
        self._numbers = itertools.count(1)

    def next_number(self) -> int:
        """The number of the next commit: of two, the later one wins, whenever it counts."""
        return next(self._numbers)

    # What is there.

    def groups(self) -> list[str]:
        """All groups that have offsets, pending ones included, sorted."""
        return sorted(self._committed.keys() | self._pending.keys())

    def get(self, group: str, place: Place) -> Committed | None:
        """What was committed last; None if nothing was."""
        return self._committed.get(group, {}).get(place)

    def of_group(self, group: str) -> list[tuple[Place, Committed]]:
        """All that a group has committed, by topic and partition."""
        return sorted(self._committed.get(group, {}).items(), key=lambda item: item[0])

    def is_unstable(self, group: str, place: Place) -> bool:
        """Whether an open transaction may yet change it."""
        return any(place in offsets for offsets in self._pending.get(group, {}).values())

    def in_transaction(self, group: str) -> bool:
        """Whether an open transaction has committed offsets of this group."""
        return group in self._pending

    # What changes.

    def commit(self, group: str, place: Place, committed: Committed) -> None:
        """It counts from now on."""
        self._committed.setdefault(group, {})[place] = committed
        self._journal.put(_OFFSET, (group, *place), committed.to_json())

    def commit_pending(
        self, group: str, producer_id: int, place: Place, committed: Committed
    ) -> None:
        """It counts if and when the producer's transaction is committed."""
        transactions = self._pending.setdefault(group, {})
        transactions.setdefault(producer_id, {})[place] = committed
        self._journal.put(_PENDING, (group, producer_id, *place), committed.to_json())

    def end_transaction(self, group: str, producer_id: int, *, commit: bool) -> None:
        """Let the producer's pending offsets count, or drop them. Nothing pending: nothing done.

        What was committed otherwise since then is later, and stays.
        """
        for place, pending in self._take_pending(group, producer_id).items():
            there = self.get(group, place)
            if commit and (there is None or there.number < pending.number):
                self.commit(group, place, pending)
            self._journal.put(_PENDING, (group, producer_id, *place), None)

    def _take_pending(self, group: str, producer_id: int) -> _Offsets:
        transactions = self._pending.get(group, {})
        offsets = transactions.pop(producer_id, {})
        if not transactions:
            self._pending.pop(group, None)
        return offsets

    def delete(self, group: str, place: Place) -> None:
        """Forget it, pending ones too."""
        offsets = self._committed.get(group, {})
        if offsets.pop(place, None) is not None:
            self._journal.put(_OFFSET, (group, *place), None)
            if not offsets:
                del self._committed[group]
        for producer_id, pending in list(self._pending.get(group, {}).items()):
            if pending.pop(place, None) is not None:
                self._journal.put(_PENDING, (group, producer_id, *place), None)
                if not pending:
                    self._take_pending(group, producer_id)

    def delete_group(self, group: str) -> None:
        """Forget all offsets of a group."""
        for place in self._places(group):
            self.delete(group, place)

    def delete_topic(self, topic: str) -> None:
        """Forget what all groups committed in a topic."""
        for group in self.groups():
            for place in self._places(group):
                if place[0] == topic:
                    self.delete(group, place)

    def _places(self, group: str) -> list[Place]:
        places = set(self._committed.get(group, ()))
        return sorted(places.union(*self._pending.get(group, {}).values()))

    # After a restart.

    def restore(self, values: Mapping[tuple[str, tuple[str | int, ...]], Any]) -> None:
        """Take in what was kept; other kinds of values are of no concern."""
        newest = 0
        for key, value in _of_kind(_OFFSET, values):
            group, topic, partition = key
            self._committed.setdefault(group, {})[topic, partition] = Committed(**value)
            newest = max(newest, value["number"])
        for key, value in _of_kind(_PENDING, values):
            group, producer_id, topic, partition = key
            transactions = self._pending.setdefault(group, {})
            transactions.setdefault(producer_id, {})[topic, partition] = Committed(**value)
            newest = max(newest, value["number"])
        self._numbers = itertools.count(newest + 1)


def _of_kind(
    kind: str, values: Mapping[tuple[str, tuple[str | int, ...]], Any]
) -> Iterator[tuple[Any, Any]]:
    return ((key, value) for (its_kind, key), value in values.items() if its_kind == kind)
