"""The rebalances of one group, told from the traces of its members.

`GroupTraces` takes events one by one, in the order of their times, and gives rows as soon as they
are complete: it remembers what is under way, the consumers that were there last, and the totals of
each name. It can be pickled between two events, so that a stream goes on where it was.

A rebalance is put together of its members' parts: `together` says which of them are one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import Final

from aktor.trace.rebalances import fields
from aktor.trace.rebalances.absent import ENDED, ENDED_WORDS, INTERVALS, absent
from aktor.trace.rebalances.assembly import SKEW, Assembly
from aktor.trace.rebalances.causes import STAYS, Cause, cause_of, departure_of, was_replaced
from aktor.trace.rebalances.clocks import Clocks
from aktor.trace.rebalances.departures import REACH, Departure, Resized
from aktor.trace.rebalances.generations import Generations
from aktor.trace.rebalances.holds import not_there
from aktor.trace.rebalances.lines import ALONE, DELIVERED, HEARTBEAT, HEARTBEAT_LATE, Event
from aktor.trace.rebalances.outages import Outages
from aktor.trace.rebalances.ownership import OVERLAP, Owner, Ownership
from aktor.trace.rebalances.parts import (
    CALLBACKS,
    IN_GROUP,
    OUT_OF_GROUP,
    Life,
    Name,
    Part,
)
from aktor.trace.rebalances.refusals import (
    BROKERS,
    GROUP,
    LOGIN,
    TOPIC,
    Refusals,
    is_login,
)
from aktor.trace.rebalances.rows import At, RefusedCommit, Reset, Row, Silence
from aktor.trace.rebalances.silences import (
    CALLBACK,
    CALLBACK_WORDS,
    PAUSED,
    PAUSED_WORDS,
    Silences,
)
from aktor.trace.rebalances.spans import Spans
from aktor.trace.rebalances.together import Together
from aktor.trace.rebalances.totals import Storms, Totals
from aktor.trace.rebalances.transit import under_way, was_lost

__all__ = ["ABANDONED", "HANDLERS", "SETTLED", "SIGNS", "GroupTraces", "order"]

#: A rebalance is complete when nothing of it was told for so many seconds.
SETTLED: Final = 30.0

#: A part of which nothing is told for so many seconds ends: its member was killed, or its trace is
#: not here.
ABANDONED: Final = 600.0


#: A member that is in a rebalance and tells nothing for so many seconds, and for two intervals of
#: its heartbeats, is not there any more, or its trace is not.
QUIET: Final = 30.0

#: Of the consumers on which nothing depends any more so many are kept: those that told something
#: last. Who tells something again after that is taken for another consumer. The first number is for
#: those that have left their group, were lost or taken out of it, or never came into it. The second
#: is for those that seem to be there and own nothing of the group's: in a KIP-848 group, and
#: without a group, no trace shows that one was killed. Who told something within the last of these
#: seconds is kept anyway.
GONE_KEPT: Final = 100
IDLE_KEPT: Final = 1_000
JUST_NOW: Final = 60.0

#: In which words a member leaves whose consumer was closed.
CLOSED: Final = "the consumer was closed"

#: Events by which a member says only that it lives: nothing else depends on them.
SIGNS: Final = frozenset({HEARTBEAT, HEARTBEAT_LATE})

#: Those that do not belong to a rebalance.
_NO_PART: Final = SIGNS | {DELIVERED}


def order(event: Event) -> tuple[float, str, int]:
    """Events are taken in this order: the lines of one trace are never exchanged at equal times."""
    return event["t"], event["source"], fields.number(event, "line") or 0


def _is_the_same(event: Event, last: Event) -> bool:
    """Whether it is the same line of the same trace: it was shipped twice, perhaps each time with
    other keys that a shipper adds. (An older trace does not number its lines.)"""
    if fields.number(event, "line") is None:
        return event == last
    return order(event) == order(last)


class GroupTraces:
    """Owns what is known of one group."""

    def __init__(self, group: str) -> None:
        self.group = group
        #: Events that came a second time.
        self.repeated = 0
        self._rows: list[Row] = []
        self._lives: dict[str, Life] = {}
        #: When there are more, some are forgotten.
        self._most = GONE_KEPT
        #: Who has each name: a consumer that was closed does not need it any more.
        self._named: dict[Name, str] = {}
        self._ownership = Ownership(group)
        self._together = Together(self._lives, apart=self._all_apart, settle=self._settle)
        self._departures: list[Departure] = []
        self._silences = Silences(group)
        self._refusals = Refusals(group)
        self._outages = Outages(group)
        self._spans = Spans(group)
        #: Topics that have got another number of partitions lately, by who heard of it first.
        self._resized: list[Resized] = []
        #: What began the last rebalances, with the generation to which it led.
        self._causes: list[tuple[int, Departure]] = []
        self._storms = Storms(group)
        self._totals = Totals(group)
        self.clocks = Clocks()
        self._generations = Generations(
            self._lives,
            self._together,
            end=self._end_part,
            expel=self._spans.expel,
            take_out=self._take_out,
        )
        self._last: Event | None = None
        #: Nothing comes to its end by the mere passing of time before this.
        self._due = math.inf
        self._now = -math.inf

    def take(self, event: Event) -> None:
        """The next event of the group."""
        if self._last is not None and _is_the_same(event, self._last):
            self.repeated += 1
            return
        self._last = event
        at = event["t"]
        self.wait(at)
        self._now = at
        life = self._life(event)
        name = event["event"]
        life.hear(at, name, is_debug=event.get("level") == "debug")
        self._outages.hear(life, at)
        if name in SIGNS:
            self._sign(life, at, event)
            return
        self._spans.tell(life, at, event)
        HANDLERS[name](self, life, at, event)
        if life.aways:
            self._spans.coordinator_was_away(life)
        self._collect()

    def wait(self, until: float) -> None:
        """No event before this time is left."""
        while self._due < until:
            self._pass_time(self._due)

    @property
    def ahead(self) -> Mapping[tuple[Name, Name], float]:
        """Whose clock is ahead of whose, by more than `SKEW` seconds: partitions show it that were
        handed over against the order of their offsets (or a position was set back)."""
        return {names: by for names, by in self._ownership.ahead.items() if by > SKEW}

    @property
    def surely_ahead(self) -> Mapping[tuple[Name, Name], float]:
        """The same, as epochs show it, and partitions that were released later than their next
        owners were given them."""
        known = dict(self.clocks.ahead)
        for names, by in self._ownership.handed_over.items():
            known[names] = max(known.get(names, 0.0), by)
        return {names: by for names, by in known.items() if by > SKEW}

    def _apart(self, assembly: Assembly) -> dict[tuple[Name, Name], float]:
        """Whose clock is surely another one than that of one of these members, by so many seconds
        at least."""
        names = {part.name for part in assembly.parts}
        return {both: by for both, by in self._all_apart().items() if not names.isdisjoint(both)}

    def _all_apart(self) -> dict[tuple[Name, Name], float]:
        return {**self.clocks.apart(SKEW), **self.surely_ahead}

    @property
    def has_rows(self) -> bool:
        """Whether `rows` gives any."""
        return bool(self._rows)

    def rows(self) -> list[Row]:
        """The rows that are complete and were not given yet."""
        rows, self._rows = self._rows, []
        return rows

    def _collect(self) -> None:
        """The rows that others have made."""
        for rows in (self._spans.over, self._ownership.over, self._outages.over):
            if rows:
                self._rows += rows
                rows.clear()

    def end(self) -> list[Row]:
        """The traces end here: rows of everything that is under way, too."""
        self._note_absent()
        # (Not `_now`: a stream may have waited for longer than there are events.)
        last = max((life.told for life in self._lives.values()), default=self._now)
        silent = self._silences.goes_on
        # (What the application assigned itself nobody takes over from who was killed.)
        self._end_traces(
            {one.source: one.told if one.by_hand else last for one in self._lives.values()}
        )
        self._rows += self._ownership.end()
        self._collect()
        for assembly in self._together.open:
            self._note_not_there(assembly, last)
            self._close(assembly)
        self._make(self._together.open, last, silent)
        self._rows += self._storms.end()
        if self.group != ALONE:
            self._rows += self._totals.rows()
        return self.rows()

    def _end_traces(self, ends: Mapping[str, float]) -> None:
        """Nothing more is told by these, at these times: rows of what their members are in."""
        for source, at in ends.items():
            life = self._lives[source]
            self._leave_open(life, at)
            self.clocks.ends(source, self._spans.end(life, at))
        self._rows += self._silences.close(ends)
        self._rows += self._refusals.close(ends)
        self._rows += self._outages.close(ends)

    def _leave_open(self, life: Life, last: float) -> None:
        """The traces end in the midst of a part: it goes on as long as any of them, unless that of
        its own member has ended before."""
        part = life.part
        if part is None:
            return
        if part.taken_out is not None and life.told <= part.taken_out:
            self._end_part(life, part.taken_out, "lost")
        elif self._is_heard(life, part, last):
            part.goes_on, part.quiet = True, life.quiet(last)
            self._end_part(life, last, "unfinished")
        else:
            self._end_part(life, max(life.told, part.began), "unfinished")

    def _note_not_there(self, assembly: Assembly, last: float) -> None:
        """A classic group waits until all have joined: who tells nothing of that, and ought to?"""
        if not assembly.goes_on or assembly.generations or self._protocol(assembly) != "classic":
            return
        quiet = [
            (life.quiet(last), life.source, life.name)
            for life in self._lives.values()
            if life.is_expected and life.part is None and life.last_part not in assembly.parts
        ]
        longest, _, name = max(quiet, default=(0.0, "", (None, None)))
        if longest:
            assembly.not_there = not_there(name, longest)

    def _is_heard(self, life: Life, part: Part, last: float) -> bool:
        """Whether a member would tell no more than it did if it lived."""
        if life.state == "joining" and life.protocol == "classic" and part.passed is None:
            # The answer to its JoinGroup comes when all have joined, and until then it is silent.
            return True
        interval = life.heartbeat_interval if life.intervals else 0.0
        return last - life.told <= max(QUIET, INTERVALS * interval)

    def _note_absent(self) -> None:
        """Begin the silences of members that are gone, or so it seems: see `absent`."""
        was_set = {name for _, name in self.clocks.sets()}  # nobody knows when these told what
        lives = {
            source: life
            for source, life in self._lives.items()
            if life.name not in was_set and not self._spans.is_expelled(life)
        }
        apart = {**self.clocks.apart(SKEW), **self.ahead, **self.surely_ahead}
        for life, partitions in absent(lives, self._ownership.now(lives), apart.keys()):
            for partition in partitions:
                self._silences.begin(
                    *(life.source, life.name, partition, life.told, life.told), ENDED, ENDED_WORDS
                )

    # -- who it is

    def _life(self, event: Event) -> Life:
        source = event["source"]
        life = self._lives.get(source)
        if life is None:
            if len(self._lives) > self._most:
                self._forget()
            name = self._name(event)
            life = self._lives[source] = Life(source, name)
            self._named[name] = source
            life.by_hand = self.group == ALONE
            self._totals.begin_life(name)
        member = fields.text(event, "member")
        if member and life.member != member:
            life.member = member
            self._generations.know(member)
        part = life.part
        if part is not None and event["event"] not in _NO_PART:
            part.seen, part.passed = event["t"], None
            part.member = life.member
        return life

    def _name(self, event: Event) -> Name:
        """What the consumer is called whose trace begins: its client id, and its host. If another
        one has this name that was not closed, its process is added, or its trace. (A later rename
        of that one would be another name in the rows that were given before.)"""
        client, host = fields.text(event, "consumer"), fields.text(event, "host")
        process, trace = fields.number(event, "pid"), event["source"]
        marks = [] if process is None else [f"pid {process}"]
        marks += [f"trace {trace}"]
        names = [(client, host), *((f"{client or 'a member'} ({mark})", host) for mark in marks)]
        return next((name for name in names if name not in self._named), names[-1])

    def _free_name(self, life: Life) -> None:
        """Another consumer may have its name."""
        if self._named.get(life.name) == life.source:
            del self._named[life.name]

    def _forget(self) -> None:
        """Forget consumers on which nothing depends any more: they own nothing, and are in no
        rebalance of which no row was made. (A departure does not need them, and totals stay.)"""
        needed = self._ownership.sources | self._together.sources
        free = [
            life for life in self._lives.values() if not life.part and life.source not in needed
        ]
        free.sort(key=lambda life: life.told)
        gone = [life for life in free if not (life.in_group or life.by_hand)][:-GONE_KEPT]
        gone += [life for life in free if life.in_group or life.by_hand][:-IDLE_KEPT]
        gone = [life for life in gone if life.told < self._now - JUST_NOW]
        self._end_traces({life.source: life.told for life in gone})
        for life in gone:
            del self._lives[life.source]
            self.clocks.gone(life.source)
            self._free_name(life)
        self._most = len(self._lives) + GONE_KEPT

    def _started(self, life: Life, at: float, event: Event) -> None:
        ms = fields.real(event, "heartbeat_interval_ms")
        if ms is not None and ms > 0:
            life.heartbeat_setting = ms / 1000

    # -- membership

    def _triggered(self, life: Life, at: float, event: Event) -> None:
        if life.part is not None:
            life.part.attempts += 1
            return
        before = life.lately(at)  # (It is forgotten when the next one begins.)
        part = self._begin_part(life, at, fields.text(event, "because"))
        part.since_generation = fields.number(event, "generation")
        part.owned = fields.number(event, "owned")
        if before is not None and part.cause is Cause.SECOND_ROUND:
            self._together.join_rounds(before, part)
        self._together.join_waiting(part)

    def _begin_part(self, life: Life, at: float, because: str | None) -> Part:
        # The state may have been entered just before this was told.
        asked = life.revocation_asked
        part = life.begin(at, because)
        life.revocation_asked = asked
        self._due = min(self._due, at + ABANDONED)
        self._together.begin(part)
        return part

    def _moved(self, life: Life, at: float, event: Event) -> None:
        state = fields.text(event, "after")
        if state is None:
            return
        life.move(at, state, fields.text(event, "before"))
        if not life.in_group:
            self.clocks.gone(life.source)
        if not life.in_group and life.part is not None:
            self._end_part(life, at, OUT_OF_GROUP.get(state, "lost"))

    def _joined(self, life: Life, at: float, event: Event) -> None:
        # (A trace may begin here: then it does not say when the member asked to join.)
        asked = -math.inf if life.part is None else life.part.began
        part = life.part or self._begin_part(life, at, None)
        life.protocol = "classic"
        self._reach_coordinator(life, at)
        part.counted = fields.number(event, "members") or 0
        generation = fields.number(event, "generation")
        if generation is not None:
            listed = event.get("member_ids")
            ids = listed if isinstance(listed, Mapping) else {}
            part.listed = () if ids.get(life.member) else frozenset(ids)
            self._together.join_generation(part, generation)
            self._generations.answered(part, at, generation, ids)
            self.clocks.answered(generation, at, life.member, life.name, ids)
            self.clocks.asked(generation, asked, at, life.member, life.name, part.listed)

    def _take_out(self, life: Life, at: float) -> None:
        """The coordinator has taken this member out of the group in the midst of its part. If it
        lives, it will hear of it, and tell it."""
        if life.part is not None and life.part.taken_out is None:
            life.part.taken_out = at
            life.in_group = False
            self._spans.expel(life, at)
            self._due = min(self._due, at + SETTLED)

    def _epoch(self, life: Life, at: float, event: Event) -> None:
        epoch = fields.number(event, "after") or fields.number(event, "now")
        if epoch is None:
            return
        life.protocol = "consumer"
        joins = fields.number(event, "before") == 0
        self.clocks.reached(epoch, at, life.source, life.name, joins=joins)
        self._reach_coordinator(life, at)
        for number, told in enumerate(self._departures):
            if told.source == life.source and told.cause in STAYS and told.back_in is None:
                self._departures[number] = replace(told, back_in=epoch + 1)
        part, life.last_part = life.part or life.lately(at), None
        if part is not None and part.generation is None:
            # The member was taken into the group with this epoch. Or it has revoked partitions, and
            # the coordinator gives it the new epoch only after that (KIP-848).
            self._together.join_generation(part, epoch)
        else:
            life.epoch = epoch, at

    def _completed(self, life: Life, at: float, event: Event) -> None:
        ms = fields.real(event, "ms") or 0.0
        part = life.part or self._begin_part(life, at - ms / 1000, fields.text(event, "because"))
        life.in_group = True
        generation = fields.number(event, "generation")
        if generation is not None:
            self._generations.completed(generation)
        if life.protocol != "consumer" and generation is not None:
            self._together.join_generation(part, generation)
        elif generation and part.generation is None and not part.revoked:
            # It has only been given partitions: for that the coordinator gives it no other epoch
            # than it has. (A member that revoked is given the new one when it has said so.)
            self._together.join_generation(part, generation)
        self._end_part(life, at, "completed")
        self._is_back(life, generation)

    def _is_back(self, life: Life, generation: int | None) -> None:
        """The group has this member in this generation: it has not gone for good."""
        for number, left in enumerate(self._departures):
            is_its = left.source == life.source and left.cause not in STAYS
            if is_its and left.back_in is None:
                self._departures[number] = replace(left, back_in=generation)

    def _end_part(self, life: Life, at: float, outcome: str) -> None:
        part = life.end(at, outcome)
        if part is not None:
            self._spans.waited(life, part)
            if part.generation is None and outcome != "completed":
                self._together.join_ended(part)
            self._settle(self._together.of(part))

    def _settle(self, assembly: Assembly) -> None:
        """If all of it has ended: note who has which partition."""
        ended, applied = assembly.ended, assembly.applied
        if applied is not None and applied != assembly.noted:
            assembly.noted = applied
            members = [life for life in self._lives.values() if life.in_group]
            assembly.members = {life.source for life in members}
            assembly.has_other_topics = any(life.has_resubscribed for life in members)
            assembly.owners = self._ownership.now(assembly.members)
        assembly.due = math.inf
        if ended is not None:
            assembly.due = max(ended + SETTLED, self._now)
            self._due = min(self._due, assembly.due)

    def _delayed(self, life: Life, _at: float, event: Event) -> None:
        if life.part is not None:
            life.part.delayed += 1
            life.refuse(fields.text(event, "because"))

    def _heartbeat_failed(self, life: Life, _at: float, event: Event) -> None:
        life.refuse(fields.text(event, "because"))
        self._outages.refuse(life)

    def _left(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        if because == CLOSED:
            self._free_name(life)
        self._depart(life, at, because)

    def _lost(self, life: Life, at: float, event: Event) -> None:
        self._totals.of(life.name).lost += 1
        because = fields.text(event, "because")
        is_refused = life.part is not None and life.part.is_refused
        if is_refused or was_replaced(because):  # the group has as many members as before
            life.in_group, life.departed = False, True
        else:
            self._depart(life, at, because)

    def _depart(self, life: Life, at: float, because: str | None) -> None:
        # The coordinator hears of it before its answer is told.
        since = life.since if life.state == "leaving" else at
        generation = life.last_generation if life.protocol == "classic" else None
        life.in_group, life.departed, life.expelled = False, True, None
        self.clocks.gone(life.source)
        self._note(life, since, departure_of(because), because, generation)

    def _note(
        self,
        life: Life,
        at: float,
        cause: Cause,
        because: str | None,
        generation: int | None = None,
    ) -> None:
        """What this member did triggers the next rebalance of those that are in the group now."""
        outside = {one.source for one in self._lives.values() if one.state and not one.in_group}
        if cause is not Cause.LEAVE:
            outside.discard(life.source)  # it may be back in the same rebalance
        since = self._oldest(at)
        self._departures = [left for left in self._departures if left.at >= since]
        self._departures.append(
            Departure(at, cause, because, life.name, life.source, generation, frozenset(outside))
        )

    def _polled_late(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because") or "it did not poll"
        if cause_of(because) is not Cause.STOOD_STILL:
            # (The application was not late: what follows from the standstill is counted as "lost".)
            self._totals.of(life.name).late_polls += 1
        life.poll_late(at, because.partition(": ")[0])

    def _clock_set(self, life: Life, at: float, event: Event) -> None:
        step = fields.real(event, "seconds")
        if step is None:
            return
        self.clocks.was_set(at, life.name, step)
        if life.part is not None:
            life.part.clock_set += step

    def _called_back(self, life: Life, at: float, event: Event) -> None:
        call, ms = CALLBACKS.get(str(event.get("callback"))), fields.real(event, "ms")
        if call is None or ms is None:
            return
        self._totals.of(life.name).called_back(ms)
        self._spans.called_back(life, call, at, ms)
        life.calling = None
        if call == CALLBACKS["on_partitions_revoked"]:
            # (A trace without the level "debug" does not say when it was called.)
            self._gives_up(life, at - ms / 1000, event)
        if life.part is not None:
            life.part.called(call, at - ms / 1000, at, ms)

    def _held_back(self, life: Life, at: float, event: Event) -> None:
        life.hold_back(at)
        self._withhold(life, at, event)

    def _revoking(self, life: Life, at: float, event: Event) -> None:
        call = "lost" if event.get("loss") == "lost" else "revoked"
        life.revoke(at, f"{call}_callback" if fields.keys(event) else None)
        self._withhold(life, at, event)
        if event.get("loss") == "revoked":
            self._gives_up(life, at, event)

    def _withhold(self, life: Life, at: float, event: Event) -> None:
        for partition in () if life.by_hand else fields.keys(event):
            self._ownership.withhold(partition, life.source, at)

    def _gives_up(self, life: Life, at: float, event: Event) -> None:
        """Its revoked callback is called. If no rebalance is under way, it leaves, and the group
        does not know it yet: no row of a rebalance tells of this callback."""
        if life.part is not None or not life.in_group or life.by_hand:
            return
        for partition in fields.names(event):
            if not self._silences.is_for(life.source, partition, CALLBACK):
                self._silences.begin(
                    *(life.source, life.name, partition, at, at), CALLBACK, CALLBACK_WORDS
                )

    def _oldest(self, at: float) -> float:
        """What was before this explains no rebalance of which no row was made by now."""
        return min([at, *(assembly.began for assembly in self._together.open)]) - 2 * REACH

    def _told_subscription(self, life: Life, at: float, event: Event) -> None:
        because, cause = life.why_subscribed(fields.text(event, "because"))
        self._note(life, at, cause, because)

    def _matched_topics(self, life: Life, at: float, event: Event) -> None:
        pattern = fields.text(event, "pattern")
        gone = fields.texts(event, "topics_removed")
        if pattern is not None:
            new = fields.texts(event, "topics_added")
            life.match(pattern, dict.fromkeys(new, "new") | dict.fromkeys(gone, "deleted"))
        for topic in gone:
            self._resize(Resized(topic, at))

    def _cluster_changed(self, _life: Life, at: float, event: Event) -> None:
        resized = event.get("resized")
        for topic, counts in resized.items() if isinstance(resized, Mapping) else ():
            if isinstance(counts, list) and len(counts) == 2:
                self._resize(Resized(topic, at, *counts))
        # (That a consumer has not asked for a topic before says nothing of the topic.)
        deleted = {one.topic for one in self._resized if one.now is None}
        for topic in deleted.intersection(fields.texts(event, "topics_added")):
            self._resize(Resized(topic, at, None, "again"))

    def _topic_deleted(self, _life: Life, at: float, event: Event) -> None:
        topic = fields.text(event, "topic")
        if topic is not None:
            self._resize(Resized(topic, at))

    def _resize(self, change: Resized) -> None:
        # Each member hears of it at another time: what counts is when the first of them did.
        since = self._oldest(change.at)
        self._resized = [known for known in self._resized if known.at >= since]
        if not any(change.is_the_same(known) for known in self._resized):
            self._resized.append(change)

    # -- the coordinator

    def _sign(self, life: Life, at: float, event: Event) -> None:
        """A heartbeat was answered, or is late."""
        if event["event"] == HEARTBEAT:
            self._outages.answer(life, at)
        else:
            self._outages.be_late(life, at, fields.real(event, "seconds") or 0.0)

    def _reach_coordinator(self, life: Life, at: float) -> None:
        life.reach_coordinator()
        self._outages.reach(life, at)

    def _bootstrap_started(self, life: Life, at: float, event: Event) -> None:
        life.look_for_brokers(at)

    def _bootstrap_failed(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        if self.group != ALONE:  # (It needs no coordinator.)
            life.find_no_broker(at, because or "no broker can be reached")
        self._no_broker(life, at, event)

    def _no_broker(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        self._add(self._refusals.tell(life.source, life.name, BROKERS, at, because))

    def _coordinator_found(self, life: Life, at: float, event: Event) -> None:
        broker = fields.number(event, "node"), fields.text(event, "address")
        life.find_coordinator(at, *broker)
        self._outages.find(life, at, broker)

    def _coordinator_lost(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because") or "it was lost"
        life.lose_coordinator(at, because)
        # (That a look-up of it failed says nothing of the coordinator.)
        broker = fields.number(event, "node"), fields.text(event, "address")
        self._outages.lose(life, at, broker, because)

    def _coordinator_refused(self, life: Life, at: float, event: Event) -> None:
        life.refuse_coordinator(at, fields.text(event, "because") or "it was refused")

    # -- partitions

    def _assigned(self, life: Life, at: float, event: Event) -> None:
        life.by_hand = event.get("by_group") is False
        if life.by_hand:
            return
        life.calling = "assigned_callback", at
        part = life.part
        for partition in fields.keys(event):
            before, row = self._ownership.assign(partition, life.source, life.name, at, part)
            self._add(row)
            if before is not None and before.source != life.source:
                self._add(self._silences.end(before.source, partition, at))
            if before is not None and before.source != life.source and before.released is None:
                owner = self._lives[before.source]
                if life.protocol == "classic" and life.generation == owner.generation is not None:
                    owner.departed = True  # this one has its place: both are static (KIP-345)
                gone_in = owner.last_part
                if owner.departed and gone_in is not None and gone_in.outcome in ("lost", "left"):
                    before.revoked_in = gone_in
                elif part is not None and not owner.departed:
                    before.expelled = owner.expel(at)
                    part.expelled.append(before.expelled)
                    owner.expelled = before.expelled
                if not owner.departed:
                    self._spans.expel(owner, at)
                    self._take_out(owner, at)
                # A coordinator gives a partition away when its owner has released it or is out of
                # the group. So the old owner is taken for gone. (If it was only suspended, or its
                # clock is ahead, its next `membership.moved` corrects that.)
                self._lives[before.source].in_group = False
            if before is not None and before.revoked_in is not None and part is not None:
                self._together.join_owners(before.revoked_in, part)
            if before is not None and part is not None and before.released is not None:
                self._note_another(partition, before, part)

    def _note_another(self, partition: str, before: Owner, given_in: Part) -> None:
        """Note whether somebody else may have had a partition since it was released: a classic
        group was in another generation meanwhile, or a KIP-848 member was done with what it had to
        give up and did not give it to this one."""
        if self._lives[given_in.source].protocol == "classic":
            left, given = before.released_in, given_in.generation
            if left is None or given is None:
                return
            unseen = self._generations.between(left, given)
            if unseen is not None:
                self._ownership.had_another(partition, unseen=unseen)
            return
        revoked_in = before.revoked_in
        if (
            revoked_in is not None
            and revoked_in.outcome == "completed"
            and self._together.are_apart(revoked_in, given_in)
            and not self._together.is_handed_over(revoked_in, given_in)
        ):
            self._ownership.had_another(partition, unseen=False)

    def _released(self, life: Life, at: float, event: Event) -> None:
        life.calling = None
        generation = life.last_generation if life.protocol == "classic" else None
        for partition in fields.keys(event):
            silence = self._silences.end(life.source, partition, at)
            if silence is not None and silence.reason == CALLBACK and life.part is not None:
                life.part.called_back.append(silence)
            else:
                self._add(silence)
        for partition in () if life.by_hand else fields.keys(event):
            is_member = life.state in IN_GROUP and not life.departed
            self._add(
                self._ownership.release(
                    *(partition, life.source, at, life.part, generation), is_member=is_member
                )
            )

    def _delivered(self, life: Life, at: float, event: Event) -> None:
        partition = fields.text(event, "partition")
        if partition is None or life.by_hand:
            return
        first, end = fields.offsets(event)
        # An iteration tells later of records that it has given out.
        began, ended = (
            at - ago if ago is not None and 0.0 <= ago < ABANDONED * 100 else at
            for ago in (fields.real(event, "first_ago"), fields.real(event, "last_ago"))
        )
        if life.expelled is not None:
            life.expelled.delivered = ended
        self._add(
            self._ownership.deliver(partition, life.source, life.name, (began, ended), first, end)
        )
        if self._ownership.is_waiting:
            self._due = min(self._due, at + OVERLAP)

    # -- silences

    def _stalled(self, life: Life, at: float, event: Event) -> None:
        partition = fields.partition(event)
        if partition is None:
            return
        since = fields.real(event, "since")
        if since is None or not 0.0 <= at - since < ABANDONED * 100:
            since = at
        reason, because = fields.text(event, "reason"), fields.text(event, "because")
        self._silences.begin(life.source, life.name, partition, since, at, reason, because)
        self._outages.withhold(life, partition, reason)

    def _unconfirmed(self, life: Life, _at: float, _event: Event) -> None:
        self._outages.withhold_all(life)

    def _delivery_resumed(self, life: Life, at: float, event: Event) -> None:
        partition = fields.partition(event)
        if partition is not None:
            seconds, ago = fields.real(event, "seconds"), fields.real(event, "ended_ago") or 0.0
            ended = at - ago if 0.0 <= ago < ABANDONED else at
            self._add(self._silences.end(life.source, partition, ended, seconds))

    def _paused(self, life: Life, at: float, event: Event) -> None:
        if event.get("because") is not None:
            return  # `process` waits for its handlers: the consumer tells when that is a silence
        for partition in fields.names(event):
            self._add(self._silences.end(life.source, partition, at))
            self._silences.begin(*(life.source, life.name, partition, at, at), PAUSED, PAUSED_WORDS)

    def _unpaused(self, life: Life, at: float, event: Event) -> None:
        for partition in fields.names(event):
            if self._silences.is_for(life.source, partition, PAUSED):
                self._add(self._silences.end(life.source, partition, at))

    # -- what went wrong

    def _commit_failed(self, life: Life, at: float, event: Event) -> None:
        self._totals.of(life.name).refused_commits += 1
        self._outages.fail_commit(life, at)
        retriable, partitions = event.get("retriable"), event.get("partitions")
        self._add(
            RefusedCommit(
                group=self.group,
                at=At(at),
                consumer=life.name[0],
                host=life.name[1],
                member=life.member,
                kind=fields.text(event, "kind"),
                because=fields.text(event, "because"),
                retriable=retriable if isinstance(retriable, bool) else None,
                partitions=len(partitions) if isinstance(partitions, list) else 0,
                rebalancing=life.part is not None,
            )
        )

    def _commit_retried(self, life: Life, _at: float, _event: Event) -> None:
        self._outages.retry_commit(life)

    def _reset(self, life: Life, at: float, event: Event) -> None:
        found, before = event.get("partitions"), event.get("from_offsets")
        if not isinstance(found, Mapping):
            return
        for partition in sorted(found):
            to = fields.number(found, partition)
            since = fields.number(before, partition) if isinstance(before, Mapping) else None
            self._totals.of(life.name).resets += 1
            self._add(
                Reset(
                    group=self.group,
                    at=At(at),
                    consumer=life.name[0],
                    host=life.name[1],
                    partition=partition,
                    strategy=fields.text(event, "strategy"),
                    because=fields.text(event, "because"),
                    from_offset=since,
                    to_offset=to,
                    skipped=None if since is None or to is None else to - since,
                )
            )

    def _connection_failed(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        if is_login(because):
            self._add(self._refusals.tell(life.source, life.name, LOGIN, at, because))

    def _group_failed(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        life.fail(because)
        self._add(self._refusals.tell(life.source, life.name, GROUP, at, because))

    def _topic_refused(self, life: Life, at: float, event: Event) -> None:
        because = fields.text(event, "because")
        self._add(self._refusals.tell(life.source, life.name, TOPIC, at, because))

    def _add(self, row: Row | None) -> None:
        if row is not None:
            self._rows.append(row)

    # -- time passes

    def _pass_time(self, now: float) -> None:
        """Make the rows that are due by `now`. `now` is the due time itself, not the time of the
        next event. That event depends on the lines that `Deliveries` leaves out, and the rows must
        not."""
        self._now = now
        for life in self._lives.values():
            part = life.part
            if part is None or now < part.abandoned_at(ABANDONED, SETTLED):
                continue
            life.in_group = False
            if part.is_silent:
                self._end_part(life, part.taken_out or now, "lost")
            else:
                self._end_part(life, part.seen, "unfinished")
        self._rows += self._ownership.pass_time(now)
        self._collect()
        for assembly in self._together.open:
            if assembly.due <= now and self._together.works_for(assembly):
                assembly.due = now + SETTLED
            elif assembly.due <= now:
                self._close(assembly)
        self._make(assembly for assembly in self._together.open if assembly.due <= now)
        self._rows += self._storms.pass_time(now)
        parts = [
            life.part.abandoned_at(ABANDONED, SETTLED) for life in self._lives.values() if life.part
        ]
        others = self._storms.due, self._ownership.due
        self._due = min([*parts, *(assembly.due for assembly in self._together.open), *others])

    def _make(
        self,
        assemblies: Iterable[Assembly],
        last: float | None = None,
        silent: Collection[tuple[str, str]] = (),
    ) -> None:
        """Rows of these. The traces end at `last`; `silent`: the silences that go on then."""
        assemblies = list(assemblies)
        refused = [assembly for assembly in assemblies if assembly.is_refused]
        for assembly in refused:
            assembly.is_made = True
        made = sorted(
            (assembly for assembly in assemblies if not assembly.is_made),
            key=lambda assembly: (assembly.due, assembly.began, assembly.parts[0].source),
        )
        for assembly in made:
            ended = assembly.ended or assembly.began
            before = [left for left in self._departures if left.at <= ended]
            apart = self._apart(assembly)
            until = math.inf if apart else ended + REACH
            later = [left for left in self._departures if ended < left.at <= until]
            self._causes = [one for one in self._causes if one[1].at >= assembly.began - REACH]
            assembly.given_later = self._given_later(assembly)
            expelled = [
                (life, one)
                for one in assembly.expelled
                if (life := self._lives.get(one.source)) is not None
            ]
            for life, one in expelled:
                one.told_since, one.is_told_of = life.told, life.is_told_of
            its = {part.member for part in assembly.parts}
            for part in assembly.parts:
                self._generations.are_seen(part, its)
            row, parts = assembly.rows(
                self.group,
                self._protocol(assembly),
                before,
                later,
                self._resized,
                self._causes,
                apart,
            )
            for life, _ in expelled:
                life.is_told_of = not life.in_group
            self._causes += assembly.own_causes
            self._rows += [row, *parts]
            self._rows += self._storms.add(row)
            self._totals.made(row, assembly)
            self._departures = [left for left in self._departures if not assembly.is_over(left)]
            assembly.is_made = True
        told: list[Silence] = []
        if last is not None:
            going_on = [assembly for assembly in made if assembly.goes_on]
            in_transit = self._ownership.in_transit()
            told += under_way(self.group, in_transit, self._lives, going_on, silent, last)
        names, owner = {row.partition for row in told}, self._ownership.owner
        for assembly in made:
            classic = self._protocol(assembly) == "classic"
            told += was_lost(self.group, assembly, owner, names, classic=classic)
        self._rows += told
        # Its partitions were taken while its callback ran: that is told once.
        known = {(row.partition, row.consumer, row.host) for row in told}
        for silence in (one for a in made for part in a.parts for one in part.called_back):
            if (silence.partition, silence.consumer, silence.host) not in known:
                self._rows.append(silence)
        self._together.forget_made()

    def _given_later(self, assembly: Assembly) -> set[str]:
        """Members that have gone for good, and of whose partitions none was given away in this
        rebalance, and some in one that began later."""
        began = assembly.began
        later = [
            other for other in self._together.open if not other.is_made and other.began > began
        ]
        givers = {source for other in later for source in other.givers} - assembly.givers
        return {source for source in givers if self._lives[source].departed}

    def _close(self, assembly: Assembly) -> None:
        """The rebalance is complete: no later part is added to it. Its row is made OVERLAP seconds
        later, when it is known how long a killed member's partitions were not delivered."""
        if self._together.close(assembly):
            assembly.due += OVERLAP

    def _protocol(self, assembly: Assembly) -> str | None:
        """What its members speak; both while a group is converted."""
        spoken = {self._lives[part.source].protocol for part in assembly.parts}
        return "/".join(sorted(protocol for protocol in spoken if protocol is not None)) or None


_Handler = Callable[[GroupTraces, Life, float, Event], None]

HANDLERS: Final[Mapping[str, _Handler]] = {
    "bootstrap.failed": GroupTraces._bootstrap_failed,
    "bootstrap.started": GroupTraces._bootstrap_started,
    "brokers.unreachable": GroupTraces._no_broker,
    "callback.failed": GroupTraces._called_back,
    "callback.finished": GroupTraces._called_back,
    "clock.set": GroupTraces._clock_set,
    "cluster.changed": GroupTraces._cluster_changed,
    "commit.failed": GroupTraces._commit_failed,
    "commit.retried": GroupTraces._commit_retried,
    "connection.failed": GroupTraces._connection_failed,
    "consumer.started": GroupTraces._started,
    "coordinator.found": GroupTraces._coordinator_found,
    "coordinator.lost": GroupTraces._coordinator_lost,
    "coordinator.refused": GroupTraces._coordinator_refused,
    "coordinator.retried": GroupTraces._coordinator_lost,
    "delivery.resumed": GroupTraces._delivery_resumed,
    "delivery.stalled": GroupTraces._stalled,
    "group.failed": GroupTraces._group_failed,
    "heartbeat.failed": GroupTraces._heartbeat_failed,
    "member.epoch": GroupTraces._epoch,
    "member.left": GroupTraces._left,
    "member.lost": GroupTraces._lost,
    "membership.moved": GroupTraces._moved,
    "partitions.assigned": GroupTraces._assigned,
    "partitions.held_back": GroupTraces._held_back,
    "partitions.paused": GroupTraces._paused,
    "partitions.released": GroupTraces._released,
    "partitions.resumed": GroupTraces._unpaused,
    "partitions.revoking": GroupTraces._revoking,
    "poll.late": GroupTraces._polled_late,
    "position.reset": GroupTraces._reset,
    "rebalance.completed": GroupTraces._completed,
    "rebalance.delayed": GroupTraces._delayed,
    "rebalance.joined": GroupTraces._joined,
    "rebalance.triggered": GroupTraces._triggered,
    "session.unconfirmed": GroupTraces._unconfirmed,
    "subscription.matched": GroupTraces._matched_topics,
    "subscription.told": GroupTraces._told_subscription,
    "topic.deleted": GroupTraces._topic_deleted,
    "topic.refused": GroupTraces._topic_refused,
    DELIVERED: GroupTraces._delivered,
}
