"""Pace: records that are there come soon, and a consumer without any is idle."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

from aktor.simulation.checks.hindrances import Hindrances
from aktor.simulation.checks.logs import COMMITTED, Logs
from aktor.simulation.checks.readers import Reader, Replay, gone_consumers, process_of, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Requests of one consumer in a second in which it gives nothing out (records are fetched ahead),
#: and in half of these seconds (6 are seen). And one for each batch that is written meanwhile,
#: which it fetches ahead; what a look-up of its user may cost in this second and the next (topics
#: that it does not follow, and their offsets from each broker); and what each rebalance may cost,
#: but for those of one that turns in circles.
IDLE: Final = 36
MOSTLY_IDLE: Final = 10
PER_LOOK_UP: Final = 8
PER_REBALANCE: Final = 5
REBALANCES: Final = 8

#: Requests of one kind to one broker in a second in which nothing happens: a heartbeat may be due
#: each half of it. And of Fetch where one is kept for long: beside it others may be asked for.
QUIET: Final = 3
BESIDE: Final = 2

#: Requests that are repeated when their backoff is over, and so many of them say something. Others
#: wait for something else besides: the next heartbeat, or what a coordinator says.
_REPEATED: Final = frozenset(
    {"FindCoordinator", "JoinGroup", "ListOffsets", "OffsetFetch", "SyncGroup"}
)
ENOUGH: Final = 5

#: No less than a part of the backoff, no more than some of it, and what it takes to find out whom
#: to ask.
SOON: Final = 0.7
LATE: Final = 2.0
SLACK: Final = 0.3

#: Seconds within which the owner of a partition with records gives some of them out.
DELIVERS: Final = 10.0


def an_idle_consumer_is_idle(history: History) -> list[str]:
    """In a second in which it gives nothing out, and its user does not seek, it does not send one
    request after the other, but for those that its user asks for; in half of all these seconds of a
    history it sends a few."""
    sent: Counter[tuple[str, int]] = Counter()
    #: Which brokers were asked for ends: once a second, if somebody looks at the consumer.
    listed: set[tuple[str, int, int]] = set()
    rebalances: Counter[tuple[str, int]] = Counter()
    looked_up: Counter[tuple[str, int]] = Counter()
    written: Counter[int] = Counter()
    delivering = set()
    for event in history.events:
        second = event["member"], int(event["at"])
        match event["event"]:
            case "request.sent" if (
                event["api"] == "ListOffsets" and (*second, event["node"]) not in listed
            ):
                listed.add((*second, event["node"]))
            case "request.sent":
                sent[second] += 1
            case "rebalance.triggered":
                rebalances[second] += 1
            case "user.looks_up":
                looked_up.update((second, (event["member"], second[1] + 1)))
            case "records.written" | "transaction.ended":
                written[second[1]] += 1
            case "records.delivered" | "position.sought":
                delivering.add(second)
    more = {
        second: count
        - written[second[1]]
        - PER_LOOK_UP * looked_up[second]
        - PER_REBALANCE * min(rebalances[second], REBALANCES)
        for second, count in sorted(sent.items())
        if second not in delivering
    }
    complaints = [
        f"at {at} s {member} gave nothing out, and sent {sent[member, at]} requests in a second"
        for (member, at), count in more.items()
        if count > IDLE
    ]
    usual = sorted(more.values())[len(more) // 2] if len(more) >= ENOUGH else 0
    if usual > MOSTLY_IDLE:
        complaints.append(
            f"in half of {len(more)} seconds in which a consumer gave nothing out it sent {usual}"
            " requests more than were called for"
        )
    return complaints


def a_quiet_consumer_asks_as_often_as_it_must(history: History) -> list[str]:
    """In a second in which there is no fault, nothing is written and nothing happens to a consumer,
    it sends `QUIET` requests of a kind to each broker at most; but Fetch, in the median of all that
    a history has of such seconds, only when the one before was kept for `fetch_max_wait_ms`."""
    complaints = []
    quiet = _Quiet(history)
    #: How many more than it must be.
    fetches = []
    for (member, second, node, api), count in quiet.sent.items():
        if not quiet.was(member, second):
            continue
        if api == "Fetch":
            # One that is kept for long has others beside it.
            fetches.append(count - max(BESIDE, math.ceil(1.0 / quiet.waits[member])))
        elif count > (allowed := quiet.allowed(member, api)):
            complaints.append(
                f"at {second} s {member} sent {count} requests {api} to broker {node} in a second"
                f" in which nothing happened, {allowed} are allowed"
            )
    if len(fetches) >= ENOUGH and (more := sorted(fetches)[len(fetches) // 2]) > 0:
        complaints.append(
            f"half of {len(fetches)} times a consumer sent {more} requests Fetch more to a broker"
            " than must be in a second in which nothing happened"
        )
    return complaints


#: By what it is known that something happens to a consumer, in the same second or the one before.
_STIRS: Final = (
    *("actor.", "buffer.", "chunk.", "commit.", "connection.", "consumer.", "coordinator."),
    *(
        "fetch.",
        "heartbeat.failed",
        "member.",
        "membership.",
        "metadata.failed",
        "offsets.",
        "partitions.",
    ),
    *("position.", "rebalance.", "records.", "request.failed", "request.hindered", "session."),
    *("topic.", "user."),
)

#: What happens to everybody.
_STIRS_ALL: Final = frozenset(
    {"broker.crashed", "broker.restarted", "records.written", "topic.grown", "transaction.ended"}
)


class _Quiet:
    """Owns which requests were sent in which second, and in which of them anything happened."""

    def __init__(self, history: History) -> None:
        #: By consumer, second, broker and API.
        self.sent: Counter[tuple[str, int, int, str]] = Counter()
        #: Seconds for which each consumer lets brokers keep a Fetch.
        self.waits: dict[str, float] = defaultdict(lambda: 0.5)
        #: `retry_backoff_max_ms` of each consumer, in seconds.
        self._backoffs: dict[str, float] = {}
        self._stirred: set[tuple[str, int]] = set()
        faults: set[int] = set()
        since = 0
        for event in history.events:
            name, member, second = event["event"], event["member"], int(event["at"])
            if name == "request.sent":
                self.sent[member, second, event["node"], event["api"]] += 1
            elif name == "consumer.made":
                self.waits[member] = max(0.001, event["fetch_max_wait_ms"] / 1000)
                self._backoffs[member] = event.get("retry_backoff_max_ms", 1000) / 1000
            elif name == "fault.began":
                since = second if not faults else since
                faults.add(event["number"])
            elif name == "fault.ended":
                faults.discard(event["number"])
                self._stir("", *range(since, second + 2))
                since = second
            if name in _STIRS_ALL:
                self._stir("", second, second + 1)
            elif name.startswith(_STIRS):
                self._stir(process_of(member), second, second + 1)

    def _stir(self, who: str, *seconds: int) -> None:
        self._stirred.update((who, second) for second in seconds)

    def allowed(self, member: str, api: str) -> int:
        """How many requests of a kind it may send to a broker in a quiet second. A topic that is
        not there is asked for as often as the settings say."""
        if api != "Metadata":
            return QUIET
        return max(QUIET, math.ceil(1.2 / max(0.001, self._backoffs.get(member, 1.0))))

    def was(self, member: str, second: int) -> bool:
        """Whether nothing happened to this consumer."""
        return not {("", second), (process_of(member), second)} & self._stirred


def who_owns_records_gives_them_out(history: History) -> list[str]:
    """A consumer that owns a partition with records that it has not given out gives some out within
    `DELIVERS` seconds, whatever happens to others: it is excused as long as a fault hits itself,
    the partition, its leader or the group's coordinator, and while the user wants none."""
    complaints = []
    logs, hindrances, replay = Logs(), Hindrances(), Replay(history)

    def over(member: str, reader: Reader, partition: str, now: float) -> None:
        since = _wait(hindrances, member, reader, logs, partition)
        if since is not None and now - since > DELIVERS:
            position = reader.owned[partition].next
            complaints.append(
                f"{member} gave nothing of {partition}:{position} out from {since:.3f} to {now:.3f}"
            )

    for event, reader in replay:
        if event["event"] == "records.delivered":
            over(event["member"], reader, event["partition"], event["at"])
        logs.apply(event)
        hindrances.apply(event)
    gone = gone_consumers(history)
    for member, reader in replay.readers.items():
        for partition in sorted(reader.owned) if member not in gone else ():
            over(member, reader, partition, history.events[-1]["at"])
    return complaints


def a_poll_gives_what_there_is(history: History) -> list[str]:
    """No poll returns without records while some are here, and may be given out."""
    return [
        f"{when(event)} polled, and was given nothing of {event['partitions']}, which is here"
        for event in history.named("records.passed_over")
    ]


def requests_are_repeated_at_their_pace(history: History) -> list[str]:
    """A request that a broker refused for a while is repeated after `retry_backoff_ms`: of all that
    a history has of the first repetitions a quarter soon after that (others wait for more than
    their own backoff, as for a coordinator), and no half of them sooner."""
    delays = sorted(_first_delays(history), key=lambda delay: delay.seconds - delay.backoff)
    if len(delays) < ENOUGH:
        return []
    complaints = []
    quarter, half = delays[len(delays) // 4], delays[len(delays) // 2]
    if quarter.seconds > LATE * quarter.backoff + SLACK:
        complaints.append(("no quarter of them before", quarter))
    if half.seconds < SOON * half.backoff:
        complaints.append(("half of them before", half))
    return [
        f"{len(delays)} requests that were refused were repeated, {what} {delay.seconds:.3f} s, the"
        f" backoff is {delay.backoff:.3f} s"
        for what, delay in complaints
    ]


@dataclass(frozen=True, slots=True)
class _Delay:
    """How long a consumer waited before it repeated a request, and its `retry_backoff_ms`."""

    seconds: float
    backoff: float


def _first_delays(history: History) -> list[_Delay]:
    delays = []
    backoffs: dict[str, float] = {}
    refused: set[tuple[str, str, int]] = set()
    #: When a consumer heard that it was refused; how often in a row.
    heard: dict[tuple[str, str], float] = {}
    in_a_row: Counter[tuple[str, str]] = Counter()
    #: How often a rebalance was delayed: its backoff grows until it is completed.
    delayed: Counter[str] = Counter()
    for event in history.events:
        member, api = event["member"], event.get("api", "")
        match event["event"]:
            case "consumer.made":
                backoffs[member] = event["retry_backoff_ms"] / 1000
            case "request.hindered" if api in _REPEATED and _passes(event):
                refused.add((member, api, event["broker"]))
            case "request.answered" if (member, api, event["node"]) in refused:
                refused.discard((member, api, event["node"]))
                in_a_row[member, api] += 1
                heard[member, api] = event["at"]
            case "request.answered":
                in_a_row.pop((member, api), None)
            case "request.sent" if (since := heard.pop((member, api), None)) is not None:
                is_first = in_a_row[member, api] == 1
                if api in ("JoinGroup", "SyncGroup"):
                    is_first = delayed[member] <= 1
                if is_first and member in backoffs:
                    delays.append(_Delay(event["at"] - since, backoffs[member]))
            case "rebalance.delayed":
                delayed[member] += 1
            case "rebalance.completed":
                del delayed[member]
            case "request.failed" | "user.leaves" | "member.frozen" | "actor.restarted":
                heard.clear()
    return delays


def _passes(hindered: Event) -> bool:
    """Whether a broker refused it for a while: rights do not come back by themselves."""
    refused = hindered["how"] == "FailWith"
    return refused and not str(hindered.get("code", "")).endswith("_AUTHORIZATION_FAILED")


def _wait(
    hindrances: Hindrances, member: str, reader: Reader, logs: Logs, partition: str
) -> float | None:
    """Since when this consumer has had records of a partition to give out, and nothing to blame but
    itself; None if that is not so."""
    mine = reader.owned.get(partition)
    log = logs[partition]
    # What comes after a transaction that is open is not readable yet.
    if mine is None or (reader.isolation == COMMITTED and any(log.open.values())):
        return None
    unread = next(
        (
            log.records[offset][1]
            for offset in range(mine.next or 0, log.end)
            if log.readable(offset, len(log.eras), reader.isolation)
        ),
        None,
    )
    unhindered = hindrances.last_ended(member, partition)
    return None if unread is None or unhindered is None else max(unread, unhindered)


CHECKS: Final = (
    an_idle_consumer_is_idle,
    a_quiet_consumer_asks_as_often_as_it_must,
    requests_are_repeated_at_their_pace,
    who_owns_records_gives_them_out,
    a_poll_gives_what_there_is,
)
