"""Pace: records that are there come soon, and a consumer without any is idle."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final

from aktor.simulation.checks.logs import Logs
from aktor.simulation.checks.readers import Reader, Replay, gone_consumers, process_of
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Requests of one consumer in a second in which it gives nothing out: several times what is seen.
#: And one for each batch that is written meanwhile, which it fetches ahead; and what each rebalance
#: in it may cost, but for those of one that turns in circles.
IDLE: Final = 40
PER_REBALANCE: Final = 5
REBALANCES: Final = 8

#: Seconds after which who owns records that can be read has given some of them out.
DELIVERS: Final = 60.0


def an_idle_consumer_is_idle(history: History) -> list[str]:
    """In a second in which it gives nothing out it does not send one request after the other."""
    sent: Counter[tuple[str, int]] = Counter()
    rebalances: Counter[tuple[str, int]] = Counter()
    written: Counter[int] = Counter()
    delivering = set()
    for event in history.events:
        second = event["member"], int(event["at"])
        match event["event"]:
            case "request.sent":
                sent[second] += 1
            case "rebalance.triggered":
                rebalances[second] += 1
            case "records.written" | "transaction.ended":
                written[second[1]] += 1
            case "records.delivered":
                delivering.add(second)
    return [
        f"at {second[1]} s {second[0]} gave nothing out, and sent {count} requests in a second"
        for second, count in sorted(sent.items())
        if second not in delivering
        and count > IDLE + written[second[1]] + PER_REBALANCE * min(rebalances[second], REBALANCES)
    ]


def who_owns_records_gives_them_out(history: History) -> list[str]:
    """A consumer that owns a partition with records that it has not given out, neither paused nor
    hindered by a fault, gives some out within `DELIVERS` seconds, or says why not."""
    complaints = []
    logs = Logs()
    replay = Replay(history)
    waits = _Waits()
    for event, reader in replay:
        if event["event"] == "records.delivered":
            complaints += waits.over(event, reader, logs, event["partition"], event["at"])
        logs.apply(event)
        waits.apply(event)
    gone = gone_consumers(history)
    for member, reader in replay.readers.items():
        for partition in sorted(reader.owned) if member not in gone else ():
            end = history.events[-1]
            complaints += waits.over({**end, "member": member}, reader, logs, partition, end["at"])
    return complaints


class _Waits:
    """Since when who waits for records has nothing to blame but itself."""

    def __init__(self) -> None:
        self._faults: set[int] = set()
        self._frozen: set[str] = set()
        self._paused: set[tuple[str, str]] = set()
        self._everybody = 0.0
        self._since: dict[str, float] = defaultdict(float)
        self._given: dict[tuple[str, str], float] = defaultdict(float)
        self._stable: dict[str, float] = defaultdict(float)

    def apply(self, event: Event) -> None:
        at, member = event["at"], event["member"]
        match event["event"]:
            case "fault.began":
                self._faults.add(event["number"])
            case "fault.ended":
                self._faults.discard(event["number"])
                self._everybody = at
            case "member.frozen":
                self._frozen.add(member)
            case "member.thawed":
                self._frozen.discard(member)
                self._since[member] = at
            case "user.hears" | "user.was_away" | "position.failed" | "actor.restarted":
                self._since[member] = self._since[process_of(member)] = at
            case "partitions.assigned":
                self._since[member] = at
            case "partitions.paused":
                self._paused.update((member, one) for one in event["partitions"])
            case "partitions.resumed":
                self._paused.difference_update((member, one) for one in event["partitions"])
                self._since[member] = at
            case "records.delivered":
                self._given[member, event["partition"]] = at
            case "transaction.ended" | "log.truncated" | "replica.released":
                self._stable[event["partition"]] = at

    def over(
        self, event: Event, reader: Reader, logs: Logs, partition: str, now: float
    ) -> list[str]:
        """What there is to say when a wait for records ends."""
        member = event["member"]
        mine = reader.owned.get(partition)
        hindered = self._faults or process_of(member) in self._frozen
        if mine is None or hindered or (member, partition) in self._paused:
            return []
        log = logs[partition]
        unread = next(
            (
                log.records[offset][1]
                for offset in range(mine.next or 0, log.end)
                if log.readable(offset, len(log.eras), reader.isolation)
            ),
            None,
        )
        if unread is None:
            return []
        since = max(
            unread,
            self._everybody,
            self._since[member],
            self._since[process_of(member)],
            self._given[member, partition],
            self._stable[partition],
        )
        if now - since <= DELIVERS:
            return []
        return [
            f"{member} gave nothing of {partition}:{mine.next} out from {since:.3f} to {now:.3f}"
        ]


CHECKS: Final = (
    an_idle_consumer_is_idle,
    who_owns_records_gives_them_out,
)
