"""What one consumer does in the rebalances of its group, as its trace tells it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from aktor.trace import reasons
from aktor.trace.rebalances.causes import OF_OTHERS, Cause, cause_of
from aktor.trace.rebalances.lines import HEARTBEAT, HEARTBEAT_LATE
from aktor.trace.rebalances.rows import Silence

__all__ = ["CALLBACKS", "GOES_ON", "IN_GROUP", "KILLED", "OUT_OF_GROUP", "PHASES", "WAITS", "Away"]
__all__ += ["Expelled", "Life", "Name", "Part", "milliseconds", "one_clock"]

#: The phases of a part, by the states of `membership.moved`.
PHASES: Final = {
    "preparing": "prepare",
    "joining": "join",
    "freeing instance id": "join",
    "syncing": "sync",
    "revoking": "revoke",
    "assigning": "assign",
    "reconciling": "reconcile",
    "acknowledging": "acknowledge",
}

#: The kinds of a rebalance listener's calls.
CALLBACKS: Final = {
    "on_partitions_revoked": "revoked_callback",
    "on_partitions_assigned": "assigned_callback",
    "on_partitions_lost": "lost_callback",
}

#: What a part may wait for, besides its callbacks: the application's next poll (partitions are
#: revoked in `poll`), the commit before a revocation, and the group's coordinator.
WAITS: Final = ("poll", "commit", "coordinator")

#: A coordinator that was found and is lost again within so many seconds was away all the time: the
#: other brokers go on naming a dead one until its own session with the controller ends.
FLAPS: Final = 15.0

#: The states in which a member is in its group or about to join it. In the states of
#: OUT_OF_GROUP it is not, and its part in a rebalance ends with the outcome that stands there.
IN_GROUP: Final = frozenset({*PHASES, "stable"})
OUT_OF_GROUP: Final = {
    "unjoined": "lost",
    "losing": "lost",
    "fenced": "lost",
    "stale": "lost",
    "fatal": "lost",
    "leaving": "left",
    "unsubscribed": "left",
}

#: The states in which partitions are revoked: the application does it in its next `poll`.
_REVOKES: Final = {"preparing", "revoking", "reconciling"}

#: The states in which the application has all that it was to have.
_APPLIED: Final = {"stable", "acknowledging"}

#: The states that one of the two protocols has alone.
_CLASSIC: Final = {"unjoined", "preparing", "syncing", "revoking", "assigning", "losing"}
_CONSUMER: Final = {
    *("unsubscribed", "freeing instance id", "reconciling", "acknowledging"),
    *("fenced", "stale", "fatal"),
}

#: A member's new epoch (`member.epoch`) is that of a part which begins at most so many seconds
#: after it, or has ended at most so many seconds before it.
_FRESH: Final = 1.0

#: Seconds between the heartbeats of a classic member by default, and those of a KIP-848 member at
#: most (`group.consumer.max.heartbeat.interval.ms`).
USUAL_INTERVAL: Final = 3.0
LONGEST_INTERVAL: Final = 15.0

#: The trace of a member that lives tells something within so many seconds.
GOES_ON: Final = 1.0

#: What became of a member that the coordinator took out of the group: if its trace ends before
#: that; if it has told nothing for a while, and goes on after that; if it is static, and was
#: closed; and if its trace goes on all the time.
KILLED: Final = "it was killed, stopped or cut off"
STOPPED: Final = "it was stopped or cut off"
STAYED_AWAY: Final = "its consumer was closed, and none came with its group_instance_id in time"
CUT_OFF: Final = "it was cut off from the coordinator, and its trace goes on"

#: A heartbeat was refused, or not answered.
HEARTBEAT_FAILED: Final = "heartbeat.failed"

#: So many characters has a UUID.
UUID: Final = 36

#: So many times between heartbeats are kept.
INTERVALS_KEPT: Final = 5

#: A consumer's client id, with its process if another one there has that, too; and its host.
Name = tuple[str | None, str | None]


@dataclass(slots=True, eq=False)
class Away:
    """The group's coordinator could not be used, as one member tells it."""

    began: float
    #: "broker 1 at b1:9092: connection refused"
    who: str
    node: int | None
    ended: float | None = None


@dataclass(slots=True, eq=False)
class Expelled:
    """A member that did not say that it left: another member was given its partition, or the leader
    of the group counts it no more."""

    name: Name
    at: float
    source: str
    #: When its trace told of it last before that; and when the coordinator answered its last
    #: heartbeat, if the trace says it: from then on its session runs.
    told: float
    heard: float
    #: When it released that partition: if soon, by the clock of its host, it was no expulsion.
    released: float | None = None
    #: It was still a member then, as it says: the coordinator had asked for the partition, and its
    #: clock is another one than the next owner's.
    was_member: bool = False
    #: When it last gave out records, if it was after that.
    delivered: float = -math.inf
    #: It was closed, and is static: the group waited whether it comes back.
    is_closed: bool = False
    #: Since when it had been giving partitions up, as a KIP-848 member.
    gives_up_since: float | None = None
    #: When its row is made: when its trace told of it last, and whether another row has told that
    #: it was taken out.
    told_since: float = -math.inf
    is_told_of: bool = False

    @property
    def goes_on(self) -> bool:
        """Whether its trace does not end before that."""
        return self.told_since > self.at or self.at - self.told < GOES_ON

    @property
    def how(self) -> str:
        """Why the coordinator did not hear of it, as far as its own trace shows it."""
        if self.is_closed:
            return STAYED_AWAY
        if not self.goes_on:
            return KILLED
        return CUT_OFF if self.at - self.told < GOES_ON else STOPPED

    def is_sure(self, skew: float, seen_by: Name) -> bool:
        """Whether its own trace does not say that it was in the group for more than `skew` seconds
        afterwards: then it was no expulsion, and the clocks of the two hosts differ."""
        if one_clock(self.name, seen_by):
            return True
        if self.was_member or self.delivered > self.at + skew:
            return False
        return self.released is None or self.released > self.at + skew


@dataclass(slots=True, eq=False)
class Part:
    """A member's part in a rebalance."""

    source: str
    name: Name
    member: str | None
    because: str | None
    cause: Cause
    began: float
    #: When the trace told of it last.
    seen: float
    ended: float | None = None
    outcome: str = ""
    generation: int | None = None
    #: How many members it counted in its generation, if it is the leader; else 0.
    counted: int = 0
    attempts: int = 1
    delayed: int = 0
    #: The ids of these, unless it is a static member, which is given the list again (KIP-814).
    listed: Collection[str] = ()
    #: How many of its requests the coordinator refused or did not answer, and why the last one.
    refused: int = 0
    refusal: str | None = None
    #: The group has refused the member: only the user can mend that.
    has_failed: bool = False
    #: How many partitions it owned when it began; None: its trace does not say it. And whether it
    #: was given none yet since it came into the group.
    owned: int | None = None
    waits_for_first: bool = False
    #: Milliseconds by phase, and by callback the longest.
    spent: dict[str, float] = field(default_factory=dict)
    callbacks: dict[str, float] = field(default_factory=dict)
    #: Milliseconds by what it waited for (`WAITS`); and each wait and callback: what it was, since
    #: when and until when.
    waits: dict[str, float] = field(default_factory=dict)
    waited_for: list[tuple[str, float, float]] = field(default_factory=list)
    #: Milliseconds by the coordinator that it waited for: which broker, and why. (One that died,
    #: say, and the one that has taken over and has yet to load the group.)
    coordinators: dict[str, float] = field(default_factory=dict)
    #: In which words its application polled too late.
    late_poll: str | None = None
    #: When the coordinator was seen to have taken the member out of the group meanwhile.
    taken_out: float | None = None
    #: When others were given the answer to JoinGroup for which it waits, too, if its trace has told
    #: nothing since.
    passed: float | None = None
    #: The traces end within it. And what it waited for, or which callback ran, when its end or that
    #: of the trace came (as of `waits` and `callbacks`), and for how many milliseconds.
    goes_on: bool = False
    #: Its own trace told nothing for so many milliseconds before that, though it would have.
    quiet: float = 0.0
    pending: tuple[str, float] | None = None
    #: By how many seconds the clock of its host was set meanwhile, or its machine slept.
    clock_set: float = 0.0
    #: The generation in which it began; the rebalance leads to a later one.
    since_generation: int | None = None
    #: Members that the coordinator took out of the group.
    expelled: list[Expelled] = field(default_factory=list)
    #: The ids of members without a trace that came or went by the leader's list.
    came: list[str] = field(default_factory=list)
    went: list[str] = field(default_factory=list)
    #: (partition, the source of its owner before, or None).
    added: list[tuple[str, str | None]] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    #: The silences that its revoked callback made of the partitions that it gave up, and that have
    #: no row yet.
    called_back: list[Silence] = field(default_factory=list)
    #: The gaps in delivery (in ms) that ended after this part had given the partition a new owner.
    gaps: list[float] = field(default_factory=list)
    #: In so many of these a member without a trace may have had the partition.
    unseen_gaps: int = 0

    def end(self, at: float, outcome: str) -> None:
        """It is over."""
        self.ended, self.outcome = max(at, self.began), outcome

    def is_asked_with(self, other: Part) -> bool:
        """Whether both members were asked in one generation to join again."""
        since = self.since_generation
        return since is not None and since >= 0 and since == other.since_generation

    @property
    def is_new(self) -> bool:
        """Whether its member was not in the group before."""
        is_peer = self.cause is Cause.PEER
        return not is_peer and (self.since_generation is None or self.since_generation < 0)

    @property
    def is_refused(self) -> bool:
        """Whether the group has refused the member, which was not in it and brought nothing."""
        since = self.since_generation or 0
        return self.has_failed and since <= 0 and self.generation is None and not self.revoked

    @property
    def is_gone(self) -> bool:
        """Whether it came to its end only because the coordinator took the member out."""
        return self.taken_out is not None and self.ended == self.taken_out

    @property
    def is_silent(self) -> bool:
        """Whether the coordinator took the member out, and its trace has told nothing since."""
        return self.taken_out is not None and self.seen <= self.taken_out

    def abandoned_at(self, after: float, taken_out_after: float) -> float:
        """When it ends if its trace tells nothing more."""
        if self.is_silent and self.taken_out is not None:
            return self.taken_out + taken_out_after
        return self.seen + after

    def is_pending(self, what: str) -> bool:
        """Whether it goes on, and waits for this now, or this callback runs."""
        return self.goes_on and self.pending is not None and self.pending[0] == what

    @property
    def holds_now(self) -> bool:
        """Whether it goes on, and waits for its application, or a callback runs."""
        return self.goes_on and self.pending is not None

    def waits_yet(self, what: str, since: float, until: float) -> None:
        """It waits for this, or this callback runs, and has not come to its end."""
        ms = milliseconds(max(since, self.began), until)
        self.pending = what, ms
        if what in WAITS:
            self.waited(what, since, until)
        else:
            self.called(what, since, until, ms)

    def called(self, what: str, since: float, until: float, ms: float) -> None:
        """This callback ran, for so many milliseconds."""
        self.callbacks[what] = max(self.callbacks.get(what, 0.0), ms)
        self.waited_for.append((what, max(since, self.began), until))

    def waited(self, what: str, since: float, until: float) -> None:
        """It waited for this (one of `WAITS`)."""
        since = max(since, self.began)
        ms = milliseconds(since, until)
        if ms > 0.0:
            self.waits[what] = round(self.waits.get(what, 0.0) + ms, 3)
            self.waited_for.append((what, since, until))

    @property
    def held_in(self) -> dict[str, float]:
        """Milliseconds by what it waited for, and by callback. (As long as the coordinator is away,
        a commit waits for that.)"""
        held = {**self.waits, **self.callbacks}
        for _, since, until in (wait for wait in self.waited_for if wait[0] == "commit"):
            for _, lost, found in (wait for wait in self.waited_for if wait[0] == "coordinator"):
                held["commit"] -= milliseconds(max(since, lost), min(until, found))
        return held

    def waited_for_coordinator(self, who: str, since: float, until: float) -> None:
        """It waited for this one."""
        self.waited("coordinator", since, until)
        ms = milliseconds(max(since, self.began), until)
        self.coordinators[who] = self.coordinators.get(who, 0.0) + ms

    @property
    def coordinator(self) -> str | None:
        """The one that it waited for longest."""
        return max(self.coordinators, key=lambda who: self.coordinators[who], default=None)

    @property
    def duration_ms(self) -> float:
        """From its trigger to its end."""
        return milliseconds(self.began, self.ended if self.ended is not None else self.seen)


@dataclass(slots=True, eq=False)
class Life:
    """One consumer, from the first to the last event of its trace in one group."""

    source: str
    name: Name
    member: str | None = None
    protocol: str | None = None
    state: str = ""
    since: float = 0.0
    in_group: bool = False
    #: It said that it left or was lost, and was not seen in the group since.
    departed: bool = False
    #: When a revocation was asked for, and when the application had stopped delivery for it.
    revocation_asked: float | None = None
    held_back: float | None = None
    #: The callback of its listener that runs, and since when. (Nothing says that there is a
    #: listener: without one the next event comes at once.)
    calling: tuple[str, float] | None = None
    #: The coordinator as it was found last: its node and its address.
    coordinator: tuple[int | None, str | None] = (None, None)
    #: Since when bootstrap servers are asked.
    asks_servers: float | None = None
    away: Away | None = None
    #: Times that are over in which its coordinator was away.
    aways: list[Away] = field(default_factory=list)
    #: Its partitions were assigned by the application.
    by_hand: bool = False
    #: It was given partitions since it came into the group.
    was_given: bool = False
    #: The pattern that it is subscribed to, and the topics that are new or gone since it told its
    #: group last.
    pattern: str | None = None
    matched: dict[str, str] = field(default_factory=dict)
    #: The application has subscribed anew: perhaps not to the topics of the other members.
    has_resubscribed: bool = False
    part: Part | None = None
    #: The part before; None as soon as an epoch or a new part follows.
    last_part: Part | None = None
    #: The epoch that came last, and when.
    epoch: tuple[int, float] | None = None
    #: A row has told that it was taken out of the group.
    is_told_of: bool = False
    #: Another member was given its partition, and it has not said since that it left or was lost.
    expelled: Expelled | None = None
    #: The last event of its trace, and the one before that.
    event: str = ""
    event_before: str = ""
    #: When its trace told of it last; when the coordinator last answered a heartbeat, and the times
    #: between the last such answers; and whether it did not answer the next one in time.
    told: float = -math.inf
    heartbeat: float | None = None
    intervals: list[float] = field(default_factory=list)
    is_late: bool = False
    #: The setting, in seconds; and whether the trace has all levels: then it tells of heartbeats.
    heartbeat_setting: float | None = None
    has_all_levels: bool = False

    def hear(self, at: float, event: str, *, is_debug: bool = False) -> None:
        """Its trace tells of this event."""
        self.told = max(self.told, at)
        self.event_before, self.event = self.event, event
        self.has_all_levels = self.has_all_levels or is_debug
        if event == HEARTBEAT:
            if self.heartbeat is not None:
                self.intervals = [*self.intervals[1 - INTERVALS_KEPT :], at - self.heartbeat]
            self.heartbeat, self.is_late = at, False
        elif event == HEARTBEAT_LATE:
            self.is_late = True

    @property
    def heartbeat_interval(self) -> float:
        """The longest of the last ones: a member that has just been given partitions sends some
        heartbeats at once. If it has sent one only, or none: the setting, or what it is by default;
        in a KIP-848 group the longest that brokers ask for."""
        longest = LONGEST_INTERVAL if self.protocol == "consumer" else USUAL_INTERVAL
        known = self.heartbeat_setting if self.protocol != "consumer" else None
        return max(self.intervals, default=longest if known is None else known)

    def expel(self, at: float) -> Expelled:
        """Others tell at this time that it is no member any more, and it has not said so."""
        heard = self.told if self.heartbeat is None else self.heartbeat
        since = self.since if self.state == "reconciling" else None
        return Expelled(self.name, at, self.source, self.told, heard, gives_up_since=since)

    def may_be(self, member: str) -> bool:
        """Whether the coordinator may have given this id to it: brokers make it of the client id,
        which its name begins with, and a UUID."""
        client = member[: -len("-") - UUID]
        return bool(client) and client == (self.name[0] or "").partition(" (")[0]

    def quiet(self, last: float) -> float:
        """For how many milliseconds before the traces end its own trace tells nothing, though it
        would have told of heartbeats."""
        silent = last - self.told
        is_silent = self.intervals and silent > 2 * self.heartbeat_interval + 1.0
        return milliseconds(self.told, last) if is_silent else 0.0

    @property
    def is_expected(self) -> bool:
        """Whether its trace would go on, if its process did: it is in its group, and the
        coordinator has answered its heartbeats, or is to be sent the first ones."""
        is_away = self.away is not None and self.away.ended is None
        is_member = self.in_group and not self.departed
        is_asked = self.intervals or (self.has_all_levels and self.state == "stable")
        return bool(is_member and is_asked and not self.is_late and not is_away)

    @property
    def generation(self) -> int | None:
        """The generation of the rebalance that this member is in, or of its last one."""
        part = self.part or self.last_part
        return None if part is None else part.generation

    @property
    def last_generation(self) -> int | None:
        """The last one that had this member. (Its part may lead to the next one, or not.)"""
        of_part = None if self.part is None else self.part.since_generation
        return of_part if self.generation is None else self.generation

    def move(self, at: float, state: str, before: str | None = None) -> None:
        """The member's state is this from now on."""
        self._spend(at)
        self.state, self.since = state, at
        self.in_group = state in IN_GROUP
        if self.in_group:
            self.departed = self.is_told_of = False
        if state in _APPLIED:
            self.calling = None
        self.revocation_asked = at if state in _REVOKES else None
        if not _CLASSIC.isdisjoint({state, before}):
            self.protocol = "classic"
        elif not _CONSUMER.isdisjoint({state, before}):
            self.protocol = "consumer"

    def begin(self, at: float, because: str | None) -> Part:
        """A rebalance begins for this member: make its part."""
        cause = cause_of(because)
        if because is not None and because.startswith(reasons.NO_POLL_FOR):
            because = reasons.POLLS_AGAIN  # (A classic member says only why it had left.)
        if cause in (Cause.SUBSCRIPTION_CHANGE, Cause.JOIN):
            because, cause = self.why_subscribed(because)
        part = Part(self.source, self.name, self.member, because, cause, began=at, seen=at)
        if cause not in OF_OTHERS:
            self.was_given = False
        part.waits_for_first = not self.was_given
        if self.epoch is not None and at - self.epoch[1] <= _FRESH:
            part.generation = self.epoch[0]
        self.epoch = self.last_part = None
        self.part = part
        return part

    def end(self, at: float, outcome: str) -> Part | None:
        """The rebalance is over for this member, or its trace is. Returns its part, if there was
        one."""
        part, self.part = self.part, None
        if part is not None:
            self._spend_in(part, at)
            self._note_away(part, at)
            pending = self.pending if outcome != "completed" else None
            if pending is not None:
                gone = part.taken_out is not None and outcome == "lost"
                part.waits_yet(*pending, min(at, self.told) if gone else at)
            self.since = at
            part.end(at, outcome)
            self.was_given = self.was_given or bool(part.added)
            self.last_part = part
        return part

    # -- what it waits for

    @property
    def pending(self) -> tuple[str, float] | None:
        """What it waits for in its application, or which callback runs, and since when."""
        if self.calling is not None:
            return self.calling
        if self.held_back is not None:
            return "commit", self.held_back
        if self.revocation_asked is not None:
            return "poll", self.revocation_asked
        return ("poll", self.since) if self.state == "assigning" else None

    def hold_back(self, at: float) -> None:
        """The application has polled, and delivers nothing of what is revoked from now on."""
        asked, self.revocation_asked, self.held_back = self.revocation_asked, None, at
        if self.part is not None and asked is not None:
            self.part.waited("poll", asked, at)

    def revoke(self, at: float, call: str | None) -> None:
        """The callback is called (None: with nothing): the commit before it, if there was one, is
        over."""
        if call is not None and self.revocation_asked is not None:
            self.hold_back(at)  # it is closed: that is no poll, and needs none
        held_back, self.held_back = self.held_back, None
        self.calling = None if call is None else (call, at)
        if self.part is not None and held_back is not None:
            self.part.waited("commit", held_back, at)

    def refuse(self, because: str | None) -> None:
        """A request of its rebalance, or a heartbeat, was refused or not answered."""
        if self.part is not None and because is not None:
            self.part.refused += 1
            self.part.refusal = because

    def fail(self, because: str | None) -> None:
        """The group has refused it: a KIP-848 member has just said so of its heartbeat."""
        if self.part is not None:
            self.part.has_failed = True
            self.part.refused -= self.event_before == HEARTBEAT_FAILED
        self.refuse(because)

    def poll_late(self, at: float, because: str) -> None:
        """The application has not polled for too long: the member leaves the group."""
        self.hold_back(at)
        self.held_back = None
        if self.part is not None:
            self.part.late_poll = because

    def look_for_brokers(self, at: float) -> None:
        """The bootstrap servers are asked."""
        self.asks_servers = at

    def find_no_broker(self, at: float, because: str) -> None:
        """No bootstrap server answers: nobody can say where the coordinator is. (If it was known,
        it is told to be lost.)"""
        if self.away is None and self.coordinator == (None, None):
            began = at if self.asks_servers is None else self.asks_servers
            self.lose_coordinator(began, because)

    def find_coordinator(self, at: float, node: int | None, address: str | None) -> None:
        """A broker has named the coordinator, which may be away all the same."""
        self.coordinator = node, address
        if self.away is not None and self.away.ended is None:
            self.away.ended = at

    def lose_coordinator(self, at: float, because: str) -> None:
        """The coordinator does not answer, or is not found."""
        away, (node, address) = self.away, self.coordinator
        if away is not None and (
            away.ended is None or (away.node == node and at - away.ended <= FLAPS)
        ):
            away.ended = None
            return
        if away is not None:
            if self.part is not None:
                self._note_away(self.part, at)
            self.aways.append(away)
        at_address = f" at {address}" if address else ""
        broker = "" if node is None else f"broker {node}{at_address}: "
        self.away = Away(at, f"{broker}{because.rstrip('.')}", node)

    def refuse_coordinator(self, at: float, because: str) -> None:
        """A broker has answered, and does not tell this user who the coordinator is: whatever
        the reason was before, it is this one now."""
        self.find_coordinator(at, None, None)
        self.reach_coordinator()
        self.lose_coordinator(at, because)

    def reach_coordinator(self) -> None:
        """The coordinator has answered: if it is lost again, it is away anew."""
        if self.away is not None and self.away.ended is not None:
            if self.part is not None:
                self._note_away(self.part, self.away.ended)
            self.aways.append(self.away)
            self.away = None

    def _note_away(self, part: Part, at: float) -> None:
        if self.away is None:
            return
        ended = at if self.away.ended is None else min(self.away.ended, at)
        if ended > max(self.away.began, part.began):
            part.waited_for_coordinator(self.away.who, self.away.began, ended)

    def match(self, pattern: str, topics: Mapping[str, str]) -> None:
        """Other topics match the pattern. If the pattern is another one, the application has
        subscribed anew."""
        if self.pattern in (None, pattern):
            self.matched.update(topics)
        self.pattern = pattern

    def why_subscribed(self, because: str | None) -> tuple[str | None, Cause]:
        """Why the subscription is another one, if it is: a pattern makes another one of topics that
        are created or deleted, and nobody changed anything."""
        matched, self.matched = self.matched, {}
        self.has_resubscribed |= because == reasons.SUBSCRIPTION_CHANGED and not matched
        if because != reasons.SUBSCRIPTION_CHANGED or not matched:
            return because, cause_of(because)
        topics = ", ".join(f"{topic}: {change}" for topic, change in sorted(matched.items()))
        words = f"the topics that match its pattern {self.pattern} changed ({topics})"
        return words, Cause.METADATA_CHANGE

    def lately(self, at: float) -> Part | None:
        """Its last part, if it has just ended."""
        part = self.last_part
        recent = part is not None and part.ended is not None and at - part.ended <= _FRESH
        return part if recent else None

    def _spend(self, at: float) -> None:
        if self.part is not None:
            self._spend_in(self.part, at)

    def _spend_in(self, part: Part, at: float) -> None:
        phase = PHASES.get(self.state)
        if phase is not None:
            spent = milliseconds(max(self.since, part.began), at)
            part.spent[phase] = round(part.spent.get(phase, 0.0) + spent, 3)


def one_clock(one: Name, other: Name) -> bool:
    """Whether these are known to have the same wall clock: processes of one host have."""
    return one == other or (one[1] is not None and one[1] == other[1])


def milliseconds(since: float, until: float) -> float:
    """From one time to a later one."""
    return round(max(0.0, until - since) * 1000, 3)
