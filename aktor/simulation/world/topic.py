"""A topic of a simulation: it writes its records itself."""

from __future__ import annotations

import random
from typing import Self

from aktor.simulation.world.cluster import Brokers

__all__ = ["Topic"]


class Topic(str):
    """A topic of a simulation; is its name."""

    #: The value of each record that was written to it.
    values: list[bytes]
    #: How many bytes longer each of them is than it would be, at most.
    bulk: int = 0
    #: How many keys its records have, each drawn at random: what of them is left by compaction; 0:
    #: each record has its own.
    keys: int = 0
    _brokers: Brokers
    _random: random.Random

    @classmethod
    def of(cls, brokers: Brokers, name: str, drawn: random.Random, *, keys: int = 0) -> Self:
        """The topic of this name at these brokers; what its records are is `drawn`."""
        topic = cls(name)
        topic.values = []
        topic.keys = keys
        topic._brokers = brokers
        topic._random = drawn
        return topic

    @property
    def partitions(self) -> int:
        """How many it has now."""
        return self._brokers.model.topics.partitions(self)

    def end(self) -> int:
        """How many records were written to it, as far as all replicas have them."""
        return sum(self._brokers.end(self, partition) for partition in range(self.partitions))

    def lag(self, group: str) -> int:
        """How many records the group has not committed."""
        brokers = self._brokers
        return sum(brokers.unread(group, self, partition) for partition in range(self.partitions))

    def write(self, count: int, *, partition: int | None = None) -> None:
        """Append so many records, in small batches, to partitions drawn at random."""
        drawn = self._random
        while count > 0:
            some = min(count, drawn.randint(1, 8))
            where = drawn.randrange(self.partitions) if partition is None else partition
            self.append(where, some)
            count -= some

    def append(
        self, partition: int, count: int, *, transaction: tuple[int, int, int] | None = None
    ) -> int | None:
        """Write one batch; returns the offset after it, None if refused. See `Brokers.write`."""
        more = b"." * self._random.randint(0, self.bulk) if self.bulk else b""
        values = [f"{self}:{len(self.values) + number}".encode() + more for number in range(count)]
        drawn = self._random
        keys = [b"key %d" % drawn.randrange(self.keys) for _ in values] if self.keys else None
        end = self._brokers.write(self, partition, values, keys=keys, transaction=transaction)
        if end is not None:
            self.values += values
        return end
