"""Commits and positions: what is committed was finished, and is found again."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from aktor.simulation.checks.readers import Reader, Replay, process_of, topic_of, when
from aktor.simulation.history import Event, History

__all__ = ["CHECKS"]

#: Positions that did not move are committed again every hour, so that the broker does not let them
#: expire. It may be fewer seconds, since the member's clock may jump ahead.
REFRESHES: Final = 3000.0

#: Seconds after which the background has heard where the user is, and after which what the user
#: asked to be committed is.
TOLD_WITHIN: Final = 1.0
SETTLED: Final = 10.0


def no_commit_above_what_was_finished(history: History) -> list[str]:
    """What a consumer commits of its own accord the user came back from; what the user commits
    they were given."""
    complaints = []
    replay = Replay(history)
    for event, reader in replay:
        if event["event"] != "commit.sent" or not isinstance(event.get("offsets"), dict):
            continue
        for partition, offset in event["offsets"].items():
            mine = reader.owned.get(partition)
            if mine is None:
                continue
            limit = mine.given if event["kind"] == "asked" else mine.finished
            if limit is None or offset <= limit:
                continue
            log = replay.logs[partition]
            if len(log.eras) > 1 and offset <= log.furthest:
                continue  # its position may be that in an era that is over, markers and all
            # Markers and what was aborted are nothing that anybody could finish.
            if offset > log.end or any(
                log.readable(skipped, len(log.eras), reader.isolation)
                for skipped in range(limit, offset)
            ):
                complaints.append(
                    f"{when(event)} commits {partition}:{offset}, finished is {limit}"
                )
    return complaints


def only_owners_commit(history: History) -> list[str]:
    """A consumer of a group commits no partition that it does not own."""
    complaints = []
    for event, reader in Replay(history):
        if event["event"] == "commit.sent" and isinstance(event.get("offsets"), dict):
            complaints += [
                f"{when(event)} commits {partition}, which it does not own"
                for partition in event["offsets"]
                if event["kind"] != "asked" and partition not in reader.owned
            ]
    return complaints


def nothing_is_committed_that_was_given_up(history: History) -> list[str]:
    """A commit that the user asked for while the member owned a partition is not sent after the
    partition was revoked: another member may own it by then, or the same one with a later
    position."""
    complaints = []
    #: By member: the partitions that were revoked since the user asked for a commit last, and when.
    #: A commit that is sent at the same time as the revocation is allowed: the background thread
    #: may not have the message yet, and then it has not told the coordinator of the revocation,
    #: either, so no other member owns the partition.
    gone: dict[str, dict[str, float]] = defaultdict(dict)
    #: By member: whether the group has assigned its partitions, not `assign`. Only then can another
    #: member get them.
    by_group: dict[str, bool] = {}
    for event, reader in Replay(history):
        mine = gone[event["member"]]
        match event["event"]:
            case "partitions.assigned":
                by_group[event["member"]] = event["by_group"]
            case "partitions.released" if by_group.get(event["member"], True):
                mine.update(dict.fromkeys(event["partitions"], event["at"]))
            case "user.commits" | "user.leaves":  # who leaves commits everything
                named = event.get("partitions")
                for partition in reader.owned if named is None else named:
                    mine.pop(partition, None)
            case "commit.sent" if event["kind"] == "asked" and isinstance(event["offsets"], dict):
                complaints += [
                    f"{when(event)} commits {partition}, given up since it was asked for"
                    for partition in event["offsets"]
                    if mine.get(partition, math.inf) < event["at"]
                ]
    return complaints


def commits_do_not_overtake_each_other(history: History) -> list[str]:
    """Within an ownership nothing lower is sent after something higher, by whatever kind of commit,
    unless the user has sought since it is theirs, or names offsets."""
    complaints = []
    latest: dict[tuple[str, str], int] = {}
    moved: dict[str, set[str]] = defaultdict(set)
    failed: set[tuple[str, str]] = set()
    for event in history.events:
        who = event["member"]
        match event["event"]:
            case "position.sought" | "position.reset":
                moved[who].update(event["partitions"])
            case "partitions.assigned":
                moved[who].difference_update(event["partitions"])
                for partition in event["partitions"]:
                    latest.pop((who, partition), None)
            case "commit.failed" if "partitions" in event:  # else the caller tells of it again
                failed.update((who, partition) for partition in event["partitions"])
            case "position.resolved" if event.get("because") == "committed":
                # A commit of the ownership before was still sent in this one, and failed. The
                # look-up waited for that, and the member reads on at what is committed.
                for partition in event["partitions"]:
                    if (who, partition) in failed:
                        latest.pop((who, partition), None)
            case "topic.removed" | "log.truncated":
                latest.clear()
            case "user.commits" if event.get("partitions") is not None:
                moved[who].update(event["partitions"])
            case "commit.sent" if isinstance(event.get("offsets"), dict):
                for partition, offset in event["offsets"].items():
                    before = latest.get((who, partition), -1)
                    if offset < before and partition not in moved[who]:
                        complaints.append(
                            f"{when(event)} commits {partition}:{offset}"
                            f" ({event['kind']}) after {before}"
                        )
                    latest[who, partition] = offset
                    failed.discard((who, partition))
    return complaints


class _Requests:
    """What members have asked brokers to commit: (group, partition, offset). A member asks again
    only when it has an answer or has given up."""

    def __init__(self) -> None:
        self._under_way: dict[str, set[tuple[str, str, int]]] = {}
        self._given_up: Counter[tuple[str, str, int]] = Counter()

    def sent(self, event: Event) -> None:
        """A member asks."""
        offsets = event["offsets"].items()
        self._under_way[event["member"]] = {(event["group"], *partition) for partition in offsets}

    def given_up(self, member: str) -> None:
        """It has no answer; what a broker has not applied may be applied at any time."""
        self._given_up.update(self._under_way.pop(member, ()))

    def applied(self, commit: tuple[str, str, int]) -> None:
        """A broker has applied this: one that is under way, if there is such a one."""
        for asked in self._under_way.values():
            if commit in asked:
                asked.discard(commit)
                return
        self.applied_late(commit)

    def applied_late(self, commit: tuple[str, str, int]) -> bool:
        """A broker has applied this after a newer one; false if none like it was given up."""
        late = self._given_up[commit] > 0
        if late:
            self._given_up[commit] -= 1
        return late


def committed_offsets_never_go_back(history: History) -> list[str]:
    """Unless who commits sought or was reset, since the partition is theirs.

    A broker may apply a request whose connection the client has closed after waiting in vain, and
    do so after it has applied the next commit, which came by another connection. No client can
    prevent that: Kafka does not number commits. Each such request is excused once.
    """
    complaints = []
    latest: dict[tuple[str, str], int] = {}
    requests = _Requests()
    moved: dict[str, set[str]] = defaultdict(set)
    #: The highest offset of a commit that was sent, also of an automatic one.
    highest: dict[tuple[str, str], int] = {}
    #: Commits of lower offsets by members that sought back or were reset. (Another commit that
    #: arrives after a newer one is not excused, not even by a reset to the beginning.)
    excused: set[tuple[str, str, int]] = set()
    for event in history.events:
        match event["event"]:
            case "position.sought" | "position.reset":
                moved[event["member"]].update(event["partitions"])
            case "partitions.assigned":
                moved[event["member"]].difference_update(event["partitions"])
            case "request.failed" if event["api"] == "OffsetCommit":
                requests.given_up(event["member"])
            case "commit.sent" if isinstance(event.get("offsets"), dict):
                requests.sent(event)
                for partition, offset in event["offsets"].items():
                    key = event["group"], partition
                    known = max(latest.get(key, -1), highest.get(key, -1))
                    if partition in moved[event["member"]] and offset < known:
                        excused.add((*key, offset))
                    highest[key] = max(known, offset)
            case "topic.removed":
                for key in [key for key in latest if key[1].rpartition("-")[0] == event["topic"]]:
                    del latest[key]
            case "log.truncated":
                for key in [key for key in latest if key[1] == event["partition"]]:
                    latest[key] = min(latest[key], event["to"])
            case "offset.committed":
                key = event["group"], event["partition"]
                before, offset = latest.get(key, -1), event["offset"]
                this = (*key, offset)
                if offset >= before or this in excused:
                    requests.applied(this)
                elif not requests.applied_late(this):
                    complaints.append(
                        f"at {event['at']:.3f} {key[0]} {key[1]}: {offset} after {before}"
                    )
                latest[key] = offset
    return complaints


class _Stored:
    """What consumers have heard is stored. The answer to a commit that was sent before a topic was
    removed, or a log cut, says nothing of what is there now."""

    def __init__(self) -> None:
        #: By group and partition.
        self.offsets: dict[tuple[str, str], int] = {}
        self._under_way: set[tuple[str, str, int]] = set()

    def apply(self, event: Event) -> None:
        match event["event"]:
            case "commit.sent":
                for partition, offset in event["offsets"].items():
                    self._under_way.add((event["member"], partition, offset))
            case "commit.succeeded":
                for partition, offset in event["offsets"].items():
                    if (event["member"], partition, offset) in self._under_way:
                        self._under_way.discard((event["member"], partition, offset))
                        self.offsets[event["group"], partition] = offset
            case "topic.removed" | "log.truncated":
                self.offsets.clear()
                self._under_way.clear()

    def may_go_back(self, sent: Event, moved: Collection[str]) -> None:
        """Where who commits has sought: it may be stored though no answer comes, or though one says
        that others were refused."""
        for partition in sent["offsets"].keys() & moved:
            key = sent["group"], partition
            self.offsets[key] = min(self.offsets.get(key, 0), sent["offsets"][partition])


def commits_that_succeed_never_go_back(history: History) -> list[str]:
    """What a consumer hears is stored is not less than what anybody of its group had heard of when
    it sent that; unless it sought, was reset, or named offsets, since the partition is its own."""
    complaints = []
    stored = _Stored()
    #: What was stored when a consumer sent an offset the first time.
    known: dict[tuple[str, str, int], int] = {}
    moved: dict[str, set[str]] = defaultdict(set)
    for event in history.named(
        *("commit.sent", "commit.succeeded", "topic.removed", "log.truncated"),
        *("position.sought", "position.reset", "user.commits", "partitions.assigned"),
    ):
        who = event["member"]
        stored.apply(event)
        match event["event"]:
            case "position.sought" | "position.reset":
                moved[who].update(event["partitions"])
            case "user.commits" if event["partitions"] is not None:
                moved[who].update(event["partitions"])
            case "partitions.assigned":
                moved[who].difference_update(event["partitions"])
                for key in [
                    key for key in known if key[0] == who and key[1] in event["partitions"]
                ]:
                    # Perhaps the commit was refused, and another member has sought back since.
                    del known[key]
            case "topic.removed" | "log.truncated":
                known.clear()
            case "commit.sent":
                for partition, offset in event["offsets"].items():
                    before = stored.offsets.get((event["group"], partition), 0)
                    known.setdefault((who, partition, offset), before)
                stored.may_go_back(event, moved[who])
            case "commit.succeeded":
                for partition, offset in event["offsets"].items():
                    before = known.pop((who, partition, offset), 0)
                    if offset < before and partition not in moved[who]:
                        complaints.append(
                            f"{when(event)} committed {partition}:{offset} after {before}"
                        )
    return complaints


def nothing_is_given_again_that_is_committed(history: History) -> list[str]:
    """A group goes on where it has committed to: who reads for it is given nothing before that,
    unless they sought or were reset since the partition is theirs."""
    complaints = []
    stored = _Stored()
    moved: dict[str, set[str]] = defaultdict(set)
    #: What was stored when a partition was assigned: where it is read from is looked up after that.
    begins: dict[tuple[str, str], int] = {}
    for event in history.named(
        *("commit.sent", "commit.succeeded", "topic.removed", "log.truncated"),
        *("position.sought", "position.reset", "partitions.assigned", "records.delivered"),
    ):
        who = event["member"]
        stored.apply(event)
        match event["event"]:
            case "commit.sent":
                stored.may_go_back(event, moved[who])
            case "position.sought" | "position.reset":
                moved[who].update(event["partitions"])
            case "partitions.assigned":
                moved[who].difference_update(event["partitions"])
                for partition in event["partitions"]:
                    begins[who, partition] = stored.offsets.get((event["group"], partition), 0)
            case "topic.removed" | "log.truncated":
                begins.clear()
            case "records.delivered":
                partition, first = event["partition"], event["offsets"][0][0]
                if first < begins.get((who, partition), 0) and partition not in moved[who]:
                    complaints.append(
                        f"{when(event)} was given {partition}:{first} again,"
                        f" {begins[who, partition]} was committed"
                    )
    return complaints


def a_commit_has_all_that_was_given(history: History) -> list[str]:
    """Once `commit()` has returned, or `commit_async()` has succeeded, all is stored that the user
    had been given when they called it, of what is still theirs."""
    complaints = []
    #: By consumer: after what it was given last, after what was when it commits (None: waiting for
    #: it; else the number of the future), what is stored.
    given: dict[str, dict[str, int]] = defaultdict(dict)
    asked: dict[str, dict[int | None, dict[str, int]]] = defaultdict(dict)
    stored: dict[str, dict[str, int]] = defaultdict(dict)
    #: Where it has no position until that is reset.
    out_of_range: dict[str, set[str]] = defaultdict(set)
    #: Topics that it knows to be created anew: the partitions whose positions are of the new one.
    #: Records of the old one may still be given, from others, and cannot be committed.
    anew: dict[tuple[str, str], set[str]] = {}
    for event in history.named(
        *("user.commits", "user.committed", "commit.told", "commit.succeeded", "fetch.stopped"),
        *("records.delivered", "records.taken_back", "position.sought", "position.reset"),
        *("partitions.assigned", "partitions.held_back", "partitions.released"),
        *("topic.removed", "topic.recreated"),
    ):
        who = event["member"]
        match event["event"]:
            case "topic.removed":
                given.clear()
                asked.clear()
            case "topic.recreated":  # only now it knows: what it was given is of the old one
                anew[who, event["topic"]] = set()
                for offsets in (given[who], *asked[who].values()):
                    for partition in [
                        partition for partition in offsets if topic_of(partition) == event["topic"]
                    ]:
                        del offsets[partition]
            case "partitions.held_back":  # how far, unless the topic is another one now
                for partition in [
                    partition for partition, at in event["partitions"].items() if at is None
                ]:
                    given[who].pop(partition, None)
            case "records.delivered":
                partition = event["partition"]
                if partition in anew.get((who, topic_of(partition)), (partition,)):
                    given[who][partition] = event["offsets"][-1][1] + 1
            case "fetch.stopped":
                out_of_range[who].add(event["partition"])
            case "user.commits":
                asked[who][event.get("future")] = {
                    partition: end
                    for partition, end in given[who].items()
                    if event["partitions"] is None and partition not in out_of_range[who]
                }
            case "commit.succeeded":
                stored[who].update(event["offsets"])
            case "commit.told" if event["error"] is not None:
                asked[who].pop(event["future"], None)
            case "user.committed" | "commit.told":
                complaints += [
                    f"{when(event)} has committed {partition} up to {stored[who].get(partition)},"
                    f" and was given everything before {end}"
                    for partition, end in asked[who].pop(event.get("future"), {}).items()
                    if stored[who].get(partition, -1) < end
                ]
            case _:
                for partition in event.get("partitions") or [event["partition"]]:
                    out_of_range[who].discard(partition)
                    if event["event"] != "records.taken_back":
                        anew.get((who, topic_of(partition)), set()).add(partition)
                    for known in (given[who], stored[who], *asked[who].values()):
                        known.pop(partition, None)
    return complaints


@dataclass
class _LetGo:
    """What a consumer with automatic commits was given, and has committed of it."""

    by_hand: bool = False
    #: What it was given records of, and how far it has committed that since.
    given: dict[str, int | None] = field(default_factory=dict)
    held_back: set[str] = field(default_factory=set)
    #: What it let go of by `assign` and has yet to commit: the position, and when.
    owed: dict[str, tuple[int, Event]] = field(default_factory=dict)

    def forget(self) -> None:
        """A commit failed, or could not be made."""
        self.given.clear()
        self.owed.clear()

    def apply(self, event: Event) -> list[str]:
        """What it let go of with this event and had not committed."""
        match event["event"]:
            case "partitions.assigned":
                self.by_hand = not event["by_group"]
                self.held_back.difference_update(event["partitions"])
            case "records.delivered":
                self.given[event["partition"]] = None
            case "commit.sent" if isinstance(event.get("offsets"), dict):
                for partition, offset in event["offsets"].items():
                    if partition in self.given:
                        self.given[partition] = offset
                    if partition in self.owed and self.owed[partition][0] == offset:
                        del self.owed[partition]
            case "commit.failed" | "actor.restarted" | "member.lost" | "topic.refused":
                self.forget()
            case "partitions.held_back":
                self.held_back.update(event["partitions"])
                # The last commit goes without what has no position: the user has just sought.
                for partition in [
                    partition for partition, at in event["partitions"].items() if at is None
                ]:
                    self.given.pop(partition, None)
            case "position.sought":  # once it is held back the last commit is on its way
                for partition in self.held_back & event["partitions"].keys():
                    self.given.pop(partition, None)
            case "partitions.revoking" if event["loss"] == "lost":
                for partition in event["partitions"]:
                    self.given.pop(partition, None)
            case "partitions.released":
                return self._released(event)
            case "consumer.closed":
                return self.never_committed()
        return []

    def _released(self, event: Event) -> list[str]:
        for partition, position in event["partitions"].items():
            # One without a position (the user asked for its beginning) has nothing to commit.
            if self.given.pop(partition, position) != position and position is not None:
                self.owed[partition] = position, event
        return [] if self.by_hand else self.never_committed()

    def never_committed(self) -> list[str]:
        """Complaints about what is owed, which is not any more."""
        owed, self.owed = self.owed, {}
        return [
            f"{when(event)} let go of {partition} at {position}, and has not committed that"
            for partition, (position, event) in owed.items()
        ]


def what_is_let_go_is_committed(history: History) -> list[str]:
    """With automatic commits a consumer commits how far it has come in what it lets go of: in a
    rebalance, at the end, and when it turns to something else (`assign` does not wait for that).
    Unless an attempt fails, or the partition is lost."""
    complaints = []
    consumers: dict[str, _LetGo] = {}
    for event in history.events:
        who = event["member"]
        if event["event"] == "consumer.made":
            if event.get("enable_auto_commit") and event.get("group_id"):
                consumers[who] = _LetGo()
        elif event["event"] in ("topic.removed", "group.begun", "log.truncated"):
            for consumer in consumers.values():
                consumer.forget()
        elif event["event"] in ("user.hears", "member.killed"):
            for name, consumer in consumers.items():
                if process_of(name) == who:
                    consumer.forget()
        elif who in consumers:
            complaints += consumers[who].apply(event)
    return complaints + [
        left for consumer in consumers.values() for left in consumer.never_committed()
    ]


@dataclass
class _Kept:
    """One partition of a consumer with automatic commits: what is committed of it, and where its
    user is."""

    #: What its consumer knows to be committed; None: not known.
    committed: int | None = None
    #: Sent, and not known to be stored; the last one stands last.
    sent: list[int] = field(default_factory=list)
    #: Where the user was when they polled, if that is elsewhere than before, and when that was.
    places: list[tuple[float, int]] = field(default_factory=list)

    def is_at(self, offset: int | None, now: float) -> None:
        if offset is not None and (not self.places or self.places[-1][1] != offset):
            self.places.append((now, offset))

    def is_stored(self, offset: int) -> None:
        """It is committed. One that was sent later may still be on its way: two are in flight while
        a revocation commits."""
        self.committed = offset
        del self.sent[: self.sent.index(offset) + 1]

    def lately(self, now: float) -> set[int]:
        """Where the user may be for what the background knows; nowhere: it may know of nothing."""
        before = [place for place in self.places if place[0] < now - TOLD_WITHIN]
        if not before:
            return set()
        return {offset for _, offset in (before[-1], *self.places[len(before) :])}


#: The user is not in a poll any more, or in none that goes on.
_OUT_OF_POLL: Final = frozenset(
    {"member.frozen", "records.delivered", "user.hears", "user.position"}
)


def _left_out(
    event: Event,
    reader: Reader,
    kept: Mapping[tuple[str, str], _Kept],
    replay: Replay,
    polled_until: float,
) -> Iterator[str]:
    """Complaints about partitions that this automatic commit should have, and has not. The user's
    places are told by polls, of which the last one ended at `polled_until`."""
    for partition in sorted(reader.owned.keys() - event["offsets"].keys()):
        mine = kept.get((event["member"], partition), _Kept())
        places = mine.lately(min(event["at"], polled_until))
        if mine.committed is None or not places:
            continue
        if not any(
            place == stored or replay.passes_over(place, stored, partition, reader)
            for place in places
            for stored in (mine.committed, *mine.sent)
        ):
            yield (
                f"{when(event)} leaves {partition} out, at {max(places)}, of which"
                f" {mine.committed} is committed"
            )


def an_automatic_commit_leaves_nothing_out(history: History) -> list[str]:
    """It has the position of each partition, be it above what is committed or, after a seek, below;
    unless that is what is committed, or the user has just asked for a commit of their own."""
    complaints: list[str] = []
    kept: dict[tuple[str, str], _Kept] = defaultdict(_Kept)
    asked: dict[str, float] = defaultdict(lambda: -math.inf)
    #: When the user left the last poll; inf: they are in one, for what is known.
    left: dict[str, float] = defaultdict(lambda: math.inf)
    replay = Replay(history)
    for event, reader in replay:
        who = event["member"]
        if event["event"] in _OUT_OF_POLL:
            left[who] = min(left[who], event["at"])
        match event["event"]:
            case "loop.polled":
                left[who] = math.inf
            case "user.returned":
                left[who] = math.inf
                for partition, mine in reader.owned.items():
                    kept[who, partition].is_at(mine.next, event["at"])
            case "position.sought" | "position.reset":  # until they poll with that
                for partition in event["partitions"]:
                    kept[who, partition].places.clear()
            case "user.commits":
                asked[who] = event["at"]
            case "partitions.assigned" | "partitions.released":
                for partition in event["partitions"]:
                    kept.pop((who, partition), None)
            case "position.resolved" if event.get("because") == "committed":
                for partition, offset in event["partitions"].items():
                    kept[who, partition].committed = offset
            case "actor.restarted" | "member.lost" | "commit.failed":
                for key in [key for key in kept if key[0] == who]:
                    kept[key].committed = None
            case "topic.removed" | "log.truncated" | "group.begun":
                kept.clear()
            case "commit.sent":
                if event["kind"] == "auto" and event["at"] > asked[who] + SETTLED:
                    complaints += _left_out(event, reader, kept, replay, left[who])
                for partition, offset in event["offsets"].items():
                    kept[who, partition].sent.append(offset)
            case "commit.succeeded":
                for partition, offset in event["offsets"].items():
                    # Not if it was sent before the partition was assigned again: that is older
                    # than what the position was resolved by.
                    if offset in kept[who, partition].sent:
                        kept[who, partition].is_stored(offset)
    return complaints


def what_has_not_moved_is_not_committed_again(history: History) -> list[str]:
    """An automatic commit leaves out positions that this consumer has stored already. Once an hour
    it has them all the same, so that they do not expire."""
    complaints = []
    #: What a consumer has stored last, as long as nothing happened that may have lost it.
    stored: dict[tuple[str, str], int] = {}
    refreshed: dict[str, float] = defaultdict(lambda: -math.inf)
    for event in history.events:
        who, name = event["member"], event["event"]
        if name in ("partitions.assigned", "partitions.released"):
            for partition in event["partitions"]:
                stored.pop((who, partition), None)
        elif name in ("actor.restarted", "commit.failed", "member.lost", "position.resolved"):
            for key in [key for key in stored if key[0] == who]:
                del stored[key]
        elif name == "commit.succeeded":
            stored |= {(who, partition): offset for partition, offset in event["offsets"].items()}
        elif name == "commit.sent" and event["kind"] == "auto":
            offsets = event["offsets"].items()
            again = [
                partition for partition, offset in offsets if stored.get((who, partition)) == offset
            ]
            if again:
                if event["at"] - refreshed[who] < REFRESHES:
                    complaints.append(f"{when(event)} commits {again} again, which did not move")
                refreshed[who] = event["at"]
    return complaints


def nobody_is_told_that_nothing_is_committed(history: History) -> list[str]:
    """After a first commit, neither a consumer that looks up its position nor its user is told that
    the group has no committed offset."""
    complaints = []
    #: Since when something is committed.
    committed: dict[tuple[str, str], float] = {}
    stored = _Stored()
    #: When a consumer came to own a partition: its look-up is not older.
    owned: dict[tuple[str, str], tuple[str, float]] = {}
    for event in history.events:
        stored.apply(event)
        match event["event"]:
            case "offset.committed":
                committed.setdefault((event["group"], event["partition"]), event["at"])
            case "commit.succeeded":  # where brokers do not tell
                for key in [(event["group"], partition) for partition in event["offsets"]]:
                    if key in stored.offsets:
                        committed.setdefault(key, event["at"])
            case "topic.removed":
                for key in [key for key in committed if key[1].startswith(event["topic"] + "-")]:
                    del committed[key]
                owned.clear()
            case "partitions.assigned":
                for partition in event["partitions"]:
                    owned[event["member"], partition] = event["group"], event["at"]
            case "position.reset" if event["because"] == "no offset is committed":
                for partition in event["partitions"]:
                    group, since = owned.get((event["member"], partition), (None, -math.inf))
                    if committed.get((str(group), partition), math.inf) < since:
                        complaints.append(f"{when(event)} takes {partition} for never committed")
            case "user.finds_nothing_committed":
                partition = event["partition"]
                if (
                    committed.get((event["group"], partition), math.inf)
                    < event["at"] - event["seconds"]
                ):
                    complaints.append(f"{when(event)} is told that {partition} was never committed")
    return complaints


def no_commit_has_a_later_leader_epoch(history: History) -> list[str]:
    """The leader epoch that is stored with an offset is not newer than that of the record before
    the offset, as the broker wrote it (KIP-320).

    If it were that of a record behind the offset, and an unclean election cut off that record, then
    the position would count as truncated, though the leader has all records before it. A position
    that a reset has looked up has the epoch of the leader, who may have written nothing yet.
    """
    complaints = []
    #: The leader epoch of each offset; the newest, if the offset was written again.
    written: dict[str, dict[int, int]] = defaultdict(dict)
    looked_up: set[tuple[str, int]] = set()
    for event in history.named(
        "records.written", "transaction.ended", "position.reset", "offset.committed"
    ):
        match event["event"]:
            case "records.written" | "transaction.ended" if "epoch" in event:
                epochs, is_marker = written[event["partition"]], "marker" in event
                first, last = ("marker", "marker") if is_marker else ("first", "last")
                for offset in range(event[first], event[last] + 1):
                    epochs[offset] = max(event["epoch"], epochs.get(offset, -1))
            case "position.reset":
                looked_up.update(event["partitions"].items())
            case "offset.committed":
                partition, offset = event["partition"], event["offset"]
                epoch, before = event.get("epoch", -1), written[partition].get(offset - 1, math.inf)
                if epoch > before and (partition, offset) not in looked_up:
                    complaints.append(
                        f"{when(event)} stores {partition}:{offset} with leader epoch {epoch}: the"
                        f" record before it has {before}"
                    )
    return complaints


def resets_are_traced(history: History) -> list[str]:
    """Every reset says from where to where, and why."""
    return [
        f"{when(event)} reset {sorted(event['partitions'])} without saying from where, or why"
        for event in history.named("position.reset")
        if event["partitions"].keys() != event.get("from_offsets", {}).keys()
        or not event.get("because")
    ]


#: Why a position is looked up where nothing is committed.
_UNCOMMITTED: Final = "no offset is committed"


def new_partitions_begin_at_their_first_record(history: History) -> list[str]:
    """What a topic gains after a group's first commit for it does not begin at its end, whichever
    member comes to it."""
    complaints = []
    counts: dict[str, int] = {}
    committed: set[tuple[str, str]] = set()
    #: By group and topic: the number of the first partition that is new to the group.
    new: dict[tuple[str, str], int] = {}
    for event in history.named(
        "topic.created", "topic.grown", "topic.removed", "offset.committed", "position.reset"
    ):
        match event["event"]:
            case "topic.created" | "topic.grown" | "topic.removed":
                topic = event["topic"]
                if event["event"] == "topic.grown":
                    for key in [key for key in committed if key[1] == topic]:
                        new.setdefault(key, counts.get(topic, 0))
                else:
                    committed = {key for key in committed if key[1] != topic}
                    new = {key: first for key, first in new.items() if key[1] != topic}
                counts[topic] = event.get("partitions", 0)
            case "offset.committed":
                committed.add((event["group"], event["partition"].rpartition("-")[0]))
            case "position.reset" if (
                event.get("strategy") == "latest" and event.get("because") == _UNCOMMITTED
            ):
                for partition in event["partitions"]:
                    topic, _, number = partition.rpartition("-")
                    first = new.get((event.get("group") or "", topic))
                    if first is not None and int(number) >= first:
                        complaints.append(
                            f"{when(event)} begins at the end of {partition}, which is new"
                        )
    return complaints


CHECKS: Final = (
    no_commit_above_what_was_finished,
    only_owners_commit,
    nothing_is_committed_that_was_given_up,
    commits_do_not_overtake_each_other,
    committed_offsets_never_go_back,
    commits_that_succeed_never_go_back,
    nothing_is_given_again_that_is_committed,
    a_commit_has_all_that_was_given,
    an_automatic_commit_leaves_nothing_out,
    what_has_not_moved_is_not_committed_again,
    nobody_is_told_that_nothing_is_committed,
    no_commit_has_a_later_leader_epoch,
    resets_are_traced,
    new_partitions_begin_at_their_first_record,
    what_is_let_go_is_committed,
)
