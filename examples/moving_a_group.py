"""A group moves from the classic protocol to the brokers' (KIP-848) and back while it reads.

python -m examples.moving_a_group localhost:9092 orders billing
"""

from __future__ import annotations

import sys
import threading
from collections import Counter

from aktor import KafkaConsumer

MEMBERS = 3
STABLE_WITHIN_S = 30.0


class Member:
    """Reads in a thread of its own until it is told to close."""

    def __init__(self, bootstrap: str, topic: str, group: str, protocol: str) -> None:
        self.read: Counter[tuple[int, int]] = Counter()
        self.has_joined = threading.Event()
        self._stop = threading.Event()
        self._where = (bootstrap, topic, group, protocol)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        bootstrap, topic, group, protocol = self._where
        with KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            group_protocol=protocol,
            auto_offset_reset="earliest",
        ) as consumer:
            while not self._stop.is_set():
                for partition, records in consumer.poll(timeout_ms=100).items():
                    self.read.update((partition.partition, one.offset) for one in records)
                if consumer.assignment() and consumer.status().member_state == "stable":
                    self.has_joined.set()

    def close(self) -> Counter[tuple[int, int]]:
        """Leave the group; returns how often which record was read."""
        self._stop.set()
        self._thread.join()
        return self.read


def main(bootstrap: str, topic: str, group: str, rest_s: float = 5.0) -> Counter[tuple[int, int]]:
    """Move a group of three there and back; returns how often which record was read."""
    read: Counter[tuple[int, int]] = Counter()
    members = [Member(bootstrap, topic, group, "classic") for _ in range(MEMBERS)]
    wait_for(members, rest_s)
    for protocol in ("consumer", "classic"):
        for number in range(MEMBERS):
            read += members[number].close()
            members[number] = Member(bootstrap, topic, group, protocol)
            wait_for(members, rest_s)  # the others are to hear of it before the next one goes
            print(f"member {number} of {MEMBERS} speaks the {protocol} protocol")
    for member in members:
        read += member.close()
    print(f"{len(read)} records, {read.total() - len(read)} of them repeated")
    return read


def wait_for(members: list[Member], rest_s: float) -> None:
    """Go on when all have partitions, and some time later."""
    for member in members:
        if not member.has_joined.wait(STABLE_WITHIN_S):
            raise TimeoutError(f"a member has no partitions after {STABLE_WITHIN_S} s")
    threading.Event().wait(rest_s)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
