"""The fetch manager: keeps the application's buffer filled, from every leader at once.

It asks leaders, or replicas near us. Each node gets the Fetch of a session, which waits for data,
and beside that a sessionless Fetch. `docs/protocol.md` says which messages this manager gets and
sends.

Fetching runs ahead of the application, bounded by `max_buffered_bytes`: what is buffered and not
yet paid back by a `Poll`, and what the requests in flight may bring, together stay below it.
Records of paused partitions do not keep the others from being fetched: while they fill the buffer,
each node may bring a little more (see `FetchRoom.part`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import KafkaTimeoutError
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.structs import TopicPartition

from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import NEVER, Backoff, Duty, RequestManager, stretched
from aktor.events.fetching import PausePartitions
from aktor.events.metadata import ClusterChanged, RefreshMetadata
from aktor.events.metric import Metric
from aktor.events.network import ExpectFetches, Lane, Request, RequestFailed, ResponseReceived
from aktor.events.polling import Poll
from aktor.events.positions import (
    Assigned,
    AssignmentChanged,
    PositionsResolved,
    PositionsValidated,
    ResetPositions,
    SeekPartitions,
    ValidatePositions,
)
from aktor.events.present import FetchNow
from aktor.events.routes import FETCH, METADATA, POSITIONS
from aktor.managers.fetch.answer import FetchAnswer
from aktor.managers.fetch.cursor import FetchCursor
from aktor.managers.fetch.metrics import FetchMetrics
from aktor.managers.fetch.node import FetchNode
from aktor.managers.fetch.plan import FetchPlan
from aktor.managers.fetch.request import CHUNK_OVERHEAD, Asked, fetch_request
from aktor.managers.fetch.room import PATIENCE, FetchBandwidth, FetchRoom
from aktor.managers.fetch.session import FetchSession
from aktor.protocol.error_codes import Answer, Do, error_of, means
from aktor.protocol.fetch import FetchResponse
from aktor.protocol.partitions import listed
from aktor.protocol.refusals import named_node
from aktor.trace.plain import named

__all__ = ["FetchManager"]

#: An answer that is late by so many seconds may never come: Kafka may have made another broker the
#: leader. So the metadata is asked for, and again each time so many seconds have passed.
LATE: Final = 1.0

#: While one partition of a broker is not fetched because enough of it is buffered, the Fetch for
#: the others waits for data no longer than this: the application may empty that buffer soon.
CROWDED_WAIT: Final = 0.1


class FetchManager(RequestManager):
    """Owns fetch cursors and sessions, preferred replicas, high watermarks, bytes outstanding."""

    name = FETCH
    NEEDS = (POSITIONS, METADATA)
    READS = (
        "client_rack",
        "enable_incremental_fetch_sessions",
        "fetch_idle_wait",
        "fetch_max_bytes",
        "fetch_max_wait",
        "fetch_min_bytes",
        "isolation_level",
        "max_buffered_bytes",
        "max_partition_fetch_bytes",
        "metadata_max_age",
        "metrics_num_samples",
        "metrics_sample_window",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._metrics = FetchMetrics(
            self.settings.metrics_num_samples, self.settings.metrics_sample_window
        )
        #: The nodes of which the network actor was told that Fetches follow (`ExpectFetches`).
        self._expected: set[int] = set()
        self._leaderless = self._new_backoff()
        self._room = FetchRoom(
            self.settings.max_buffered_bytes, self.settings.max_partition_fetch_bytes
        )
        self._plan = FetchPlan(self._room)
        #: Since when a broker owes an answer: the one to its last Fetch is late, or the Fetch has
        #: failed or was refused. When and how the last one failed. And the error with which it was
        #: refused.
        self._late: dict[int, float] = {}
        self._failed: dict[int, tuple[float, str]] = {}
        self._refusals: dict[int, str] = {}
        #: The partitions of which the application may have bytes that it did not read yet.
        self._buffered: dict[TopicPartition, None] = {}
        self._nodes: dict[int, FetchNode] = {}
        self._turns = 0

    # -- what it counts, for audits

    @property
    def bytes_buffered(self) -> int:
        """The bytes that the application was given and has not given back by a `Poll`."""
        return self._room.buffered

    @property
    def bytes_reserved(self) -> int:
        """The bytes that requests in flight may bring, by the account of the room."""
        return self._room.reserved

    @property
    def bytes_asked(self) -> int:
        """The bytes that requests in flight may bring, added up from these requests."""
        nodes = self._nodes.values()
        under_way = [asked for node in nodes for asked in (node.asked, node.sessionless.asked)]
        return sum(asked.reserved for asked in under_way if asked is not None)

    @property
    def picture(self) -> dict[TopicPartition, tuple[int, bool]]:
        """The epoch of each partition that is fetched, and whether it is paused."""
        plan = self._plan
        return {
            partition: (it.epoch, partition in plan.paused)
            for partition, it in plan.cursors.items()
        }

    def measure(self, now: float) -> Mapping[Metric, float]:
        """The sizes of Fetches."""
        return self._metrics.measure(now)

    def note_present(self, now: float) -> None:
        """Show which partitions are not fetched, and whose answers are late, if that has
        changed."""
        plan = self._plan
        if plan.has_news:
            plan.shown()
            self.present = FetchNow(
                hindered=plan.hindered.copy(),
                late=self._late.copy(),
                failed=self._failed.copy(),
                refusals=self._refusals.copy(),
                replicas=plan.replicas.copy(),
                crowded=plan.all_crowded,
                answered={node_id: node.answered for node_id, node in self._nodes.items()},
            )

    def _new_backoff(self) -> Backoff:
        return Backoff(self.settings.retry_backoff, self.settings.retry_backoff_max)

    # -- what the application wants

    @handles(AssignmentChanged)
    def on_assignment_changed(self, changed: AssignmentChanged) -> None:
        """Fetch exactly these; a partition that keeps its epoch keeps its cursor."""
        cursors: dict[TopicPartition, FetchCursor] = {}
        for tp, assigned in changed.partitions.items():
            cursor = self._plan.cursors.get(tp)
            if cursor is None or cursor.epoch != assigned.epoch:
                cursor = self._new_cursor(tp, assigned)
            elif cursor.offset is None and assigned.position is not None:
                cursor.go_to(assigned.position)
            cursors[tp] = cursor
        # A program that only asks for positions must not be sent records, so what it assigns by
        # hand waits for the next Poll. A group assigns partitions inside of a poll.
        self._plan.assign(cursors, await_poll=not changed.by_group)
        self._forget_late()

    def _new_cursor(self, tp: TopicPartition, at: Assigned) -> FetchCursor:
        cursor = FetchCursor(
            tp, at.epoch, at.position, ahead=at.ahead, backoff=self._new_backoff(), log=self.log
        )
        cursor.find_leader(self._plan.cluster)
        return cursor

    @handles(SeekPartitions)
    def on_seek_partitions(self, sought: SeekPartitions) -> None:
        """Fetch from these positions; Fetches in flight and buffered records have an old epoch."""
        for tp, to in sought.partitions.items():
            self._replace(tp, to, because="a seek")

    @handles(ResetPositions)
    def on_reset_positions(self, reset: ResetPositions) -> None:
        """Do not fetch these until the position manager has found their new positions."""
        for tp, to in reset.partitions.items():
            self._replace(tp, Assigned(epoch=to.epoch), because="a reset")

    def _replace(self, tp: TopicPartition, to: Assigned, *, because: str) -> None:
        if tp not in self._plan.cursors:
            self.log.info("fetch.dropped", partition=tp, because=f"{because}, not assigned")
            return
        self._plan.replace(self._new_cursor(tp, to))

    def _look_again_at(self, *partitions: TopicPartition) -> None:
        self._plan.look_again(partitions)

    @handles(PositionsResolved)
    def on_positions_resolved(self, resolved: PositionsResolved) -> None:
        """Fetch from the position that the position manager found, if it is still waited for."""
        for tp, assigned in resolved.partitions.items():
            if self._waits_for(tp, assigned):
                assert assigned.position is not None, "a resolved position without an offset"
                self._plan.cursors[tp].go_to(assigned.position)
                self._look_again_at(tp)
            else:
                self.log.info(
                    "position.dropped",
                    partitions=[tp],
                    because="it is not waited for any more",
                )

    def _waits_for(self, tp: TopicPartition, assigned: Assigned) -> bool:
        cursor = self._plan.cursors.get(tp)
        return cursor is not None and cursor.epoch == assigned.epoch and cursor.offset is None

    @handles(PositionsValidated)
    def on_positions_validated(self, validated: PositionsValidated) -> None:
        """The leaders have what we have read: fetch on."""
        for tp, found in validated.partitions.items():
            cursor = self._plan.cursors.get(tp)
            if cursor is not None and cursor.epoch == found.epoch:
                cursor.validated(found.leader_epoch)
                self._look_again_at(tp)

    @handles(PausePartitions)
    def on_pause_partitions(self, pause: PausePartitions) -> None:
        """Do not fetch these any more; Fetches in flight and buffered records are kept."""
        self._plan.pause(pause.partitions)
        self._plan.resume(pause.resumed)

    @handles(Poll)
    def on_poll(self, poll: Poll) -> None:
        """The application has read on: there is room again. It wants records of all partitions."""
        self._plan.polled()
        freed = self._take_back_credit(poll)
        if not freed and not poll.positions:
            return
        for tp, position in poll.positions.items():
            cursor = self._plan.cursors.get(tp)
            if cursor is not None:
                cursor.consumed_up_to(position.offset)
                self._look_again_at(tp)
        if self._room.nothing_buffered:
            self._consumed_all()

    def _take_back_credit(self, poll: Poll) -> bool:
        """Free the bytes that were given back; True if there is more room now. Credit of an earlier
        incarnation does not count: the account began at zero again."""
        if poll.incarnation != self.incarnation:
            return False
        return self._room.free(poll.freed_bytes)

    def _consumed_all(self) -> None:
        for tp in self._buffered:
            cursor = self._plan.cursors.get(tp)
            if cursor is not None:
                cursor.consumed_all()
        self._look_again_at(*self._buffered)
        self._buffered.clear()

    @handles(ClusterChanged)
    def on_cluster_changed(self, changed: ClusterChanged) -> None:
        """A partition that has a new leader is fetched from the new leader at once."""
        self._plan.follow(changed.cluster)
        self._forget_late()
        for node_id in list(self._nodes):
            if node_id not in changed.cluster.brokers and not self._nodes[node_id].busy:
                del self._nodes[node_id]

    # -- what is sent

    def duties(self) -> tuple[Duty, ...]:
        """It updates the plan, asks for missing leaders, sends Fetches, and doubts late answers.

        The supervisor asks a manager only if it was told something, or its wake time has come. So
        there is no flag here that something has changed: a new handler could forget to set it.
        """
        return (self._look_again, self._want_leaders, self._send_fetches, self._doubt_late)

    def _look_again(self, now: float, jitter: float) -> float:
        """Look at the partitions to which something happened, and at those whose time has come."""
        for node_id, cursor in self._plan.refresh(now):
            node = self._node(node_id)
            if not cursor.buffered and not node.covers(cursor):
                node.sessionless.want(cursor.tp)
        if unvalidated := self._plan.to_validate():
            self._say(ValidatePositions(partitions=unvalidated))
        self._expect()
        return self._plan.wake_at

    def _expect(self) -> None:
        """Tell the network actor which nodes will get a Fetch when positions are known: it connects
        to them meanwhile."""
        expected, before = self._plan.expected, self._expected
        if expected == before:
            return
        self._expected = expected
        if news := expected - before:
            self._say(ExpectFetches(nodes=frozenset(news)))

    def _want_leaders(self, now: float, jitter: float) -> float:
        """Ask for leaders that are missing, as often as the backoff allows."""
        leaderless = self._plan.leaderless
        if not leaderless:
            if self._leaderless.failures:
                self._leaderless.reset()
            return NEVER
        if now >= self._leaderless.retry_at:
            self._leaderless.failed(now, jitter)
            self._say(RefreshMetadata(because=f"no leader is known of {listed(leaderless)}"))
        return self._leaderless.retry_at

    def _doubt_late(self, now: float, jitter: float) -> float:
        """Ask for metadata if a broker's answer is late: its partitions may have another leader."""
        wake_at = NEVER
        for node_id, node in self._nodes.items():
            if node.asked is None:
                continue
            if now >= node.late_at:
                node.wait_until(now + stretched(LATE, jitter))
                if node_id not in self._late:
                    self._late[node_id] = node.asked.sent_at
                    self._plan.show_again()
                self._say(RefreshMetadata(because=f"node {node_id} takes long over a fetch"))
            wake_at = min(wake_at, node.late_at)
        return wake_at

    def _send_fetches(self, now: float, jitter: float) -> float:
        """Send a Fetch to every node that has ready partitions, if there is room; the node that was
        not asked for the longest time comes first."""
        plan = self._plan
        ready = plan.ready_nodes()
        if not ready:
            return NEVER
        waiting, wake_at = self._waiting(ready, now)
        for index, node_id in enumerate(waiting):
            size = self._room.for_session(
                waiting=len(waiting) - index,
                nodes=plan.nodes,
                readable=plan.readable,
                from_node=plan.readable_from(node_id),
            )
            if size:
                self.send(self._fetch(node_id, size, now))
        for node_id in ready:
            node = self._nodes[node_id]
            if node.asked is not None or node_id in waiting:
                wake_at = min(wake_at, self._fetch_sessionless(node, node_id, now))
        return wake_at

    def _waiting(self, nodes: list[int], now: float) -> tuple[list[int], float]:
        """Those of these nodes that can be asked now, the one that waited longest first; and when
        the next of the others can be."""
        waiting, wake_at = [], NEVER
        for node_id in nodes:
            ready_at = self._ready_at(node_id, now)
            if now < ready_at:
                wake_at = min(wake_at, ready_at)
            else:
                waiting.append(node_id)
        waiting.sort(key=lambda node_id: self._nodes[node_id].turn)
        return waiting, wake_at

    def _ready_at(self, node_id: int, now: float) -> float:
        """When the node can be asked; NEVER: not before its answer has come."""
        node = self._node(node_id)
        if node.asked is not None:
            return NEVER
        return max(node.backoff.retry_at, node.rest_until, node.sessionless.answers_until(now))

    def _node(self, node_id: int) -> FetchNode:
        node = self._nodes.get(node_id)
        if node is None:
            session = FetchSession(enabled=self.settings.enable_incremental_fetch_sessions)
            bandwidth = FetchBandwidth(self.settings.fetch_max_bytes)
            node = self._nodes[node_id] = FetchNode(session, bandwidth, self._new_backoff())
            self._plan.show_again()
        return node

    def _fetch(self, node_id: int, size: int, now: float) -> Request:
        settings, node = self.settings, self._nodes[node_id]
        per_partition = settings.max_partition_fetch_bytes
        wanted = {
            tp: cursor.wanted(per_partition) for tp, cursor in self._plan.ready(node_id).items()
        }
        asked = Asked(
            node=node_id,
            max_bytes=min(
                max(1, size - CHUNK_OVERHEAD * len(wanted)),
                len(wanted) * per_partition,
                node.bandwidth.bytes,
            ),
            sent_at=now,
            session=node.session.next_request(wanted),
            wanted=wanted,
        )
        wait = self._longest_wait(node_id, asked)
        patience = node.backoff.doubled(wait + PATIENCE, settings.request_timeout)
        self._turns += 1
        # After a failure metadata is asked for sooner: the leader may have moved long ago.
        late_at = now + LATE + (0.0 if node.backoff.failures else wait)
        node.ask(asked, turn=self._turns, late_at=late_at)
        self._room.reserve(asked.reserved)
        body = fetch_request(asked, settings, wait=min(wait, patience / 2))
        return self.request(
            body, to=node_id, deadline=now + patience, context=asked, lane=Lane.FETCH
        )

    def _longest_wait(self, node_id: int, asked: Asked) -> float:
        """How long the broker may wait for data, in seconds."""
        wait = self.settings.fetch_max_wait
        if self._plan.crowded(node_id):
            return min(wait, CROWDED_WAIT)
        if self._is_idle(node_id, asked):
            return max(wait, self.settings.fetch_idle_wait)
        return wait

    def _is_idle(self, node_id: int, asked: Asked) -> bool:
        """Whether this Fetch may wait longer, which saves both sides most of the empty answers.

        With `fetch_min_bytes=1` a leader answers as soon as it has a record. A follower does not
        always (KAFKA-14334), so a Fetch to it keeps the short wait. The wait is short also if other
        nodes need the room that this Fetch reserves, and for the first Fetch of a partition: the
        application learns the high watermark only from its answer.
        """
        if not self._nodes[node_id].brought_nothing or not self._room.nothing_buffered:
            return False
        ready = self._plan.ready(node_id).values()
        if any(cursor.told_watermarks is None or cursor.prefers(node_id) for cursor in ready):
            return False
        nodes = self._plan.nodes
        busy = sum(node.asked is not None for node in self._nodes.values())
        return self._room.leaves_room(asked.reserved, waiting=nodes - busy - 1, nodes=nodes)

    def _fetch_sessionless(self, node: FetchNode, node_id: int, now: float) -> float:
        """Send a sessionless Fetch for partitions that the session's Fetch in flight does not cover
        and of which nothing is buffered."""
        sessionless = node.sessionless
        if sessionless.pending(now):
            size = self._room.for_sessionless(
                max(1, node.bandwidth.bytes // sessionless.divisor),
                nodes=self._plan.nodes,
                readable=self._plan.readable,
                from_node=self._plan.readable_from(node_id),
            )
            if not size:
                return NEVER
            due = sessionless.due(self._plan.ready(node_id), node.covers, now)
            if due:
                self.send(self._sessionless_request(node, node_id, due, size, now))
        return sessionless.again_at

    def _sessionless_request(
        self, node: FetchNode, node_id: int, due: list[FetchCursor], size: int, now: float
    ) -> Request:
        per_partition = self.settings.max_partition_fetch_bytes
        wanted = {
            cursor.tp: cursor.wanted(per_partition)._replace(max_bytes=size) for cursor in due
        }
        asked = Asked(
            node=node_id,
            max_bytes=max(1, size - min(CHUNK_OVERHEAD * len(wanted), size // 2)),
            sent_at=now,
            session=node.sessionless.session.next_request(wanted),
            wanted=wanted,
            sessionless=True,
        )
        node.sessionless.sent(asked)
        self._room.reserve(asked.reserved)
        body = fetch_request(asked, self.settings, wait=0.0)
        deadline = now + min(self.settings.request_timeout, PATIENCE)
        return self.request(body, to=node_id, deadline=deadline, context=asked)

    # -- what is answered

    @answers_to(FetchRequest)
    def on_fetched(self, received: ResponseReceived) -> None:
        """File what a broker sent: partition by partition, each only if it is still wanted."""
        asked: Asked = received.request.context
        response: FetchResponse = received.response
        node = self._finished(asked)
        if response.error_code:
            self._on_refused(node, asked, received)
            return
        if self._late and not asked.sessionless:
            self._owes_nothing(asked.node)
        size = sum(len(partition.records) for partition in response.partitions)
        session = node.sessionless.session if asked.sessionless else node.session
        self._metrics.answered(response.partitions, size, received.now, session=session)
        answer = self._answer(session, received)
        if not asked.sessionless:
            session.answered(asked.session, response.session_id)
        self._file(answer, response)
        if asked.sessionless:
            node.sessionless.brought(0 if answer.is_foreign else size, asked=asked.max_bytes)
        elif answer.is_foreign:
            self._on_foreign(node, asked, received)
        else:
            node.brought(size, asked, received.now)

    def _on_foreign(self, node: FetchNode, asked: Asked, received: ResponseReceived) -> None:
        """The broker has answered for partitions that it was not asked for: it is broken, or takes
        another session for ours. It would answer the same at once, so ask again later."""
        node.failed()
        retry_at = node.backoff.failed(received.now, received.jitter)
        because = f"node {asked.node} answered a fetch with partitions that it was not asked for"
        self._trace_failure(asked, because, retry_at - received.now)
        self._say(RefreshMetadata(because=because))

    def _file(self, answer: FetchAnswer, response: FetchResponse) -> None:
        present = answer.read(response)
        for cursor in answer.served:
            self._plan.to_the_end(cursor)
            self._buffered[cursor.tp] = None
        self._room.fill(sum(chunk.size for chunk in answer.chunks))
        for news in answer.news():
            self._say(news)
        self._look_again_at(*present)

    def _answer(self, session: FetchSession, came: ResponseReceived | RequestFailed) -> FetchAnswer:
        return FetchAnswer(
            asked=came.request.context,
            incarnation=self.incarnation,
            now=came.now,
            jitter=came.jitter,
            session=session,
            cursors=self._plan.cursors,
            cluster=self._plan.cluster,
            replica_age=self.settings.metadata_max_age,
            log=self.log,
        )

    def _finished(self, asked: Asked) -> FetchNode:
        """The Fetch has ended, with or without an answer: the node can be asked again, and the room
        that was reserved is free (KAFKA-19259)."""
        node = self._nodes[asked.node]
        node.ended(asked)
        self._room.release(asked.reserved)
        return node

    def _owes_nothing(self, *nodes: int) -> None:
        """These have brought what was asked for, or are asked no more."""
        for node in nodes:
            self._refusals.pop(node, None)
            self._failed.pop(node, None)
            if self._late.pop(node, None) is not None:
                self._plan.show_again()

    def _forget_late(self) -> None:
        """A broker of which nothing is read any more owes no answer."""
        cursors = self._plan.cursors.values() if self._late else ()
        leaders = {cursor.leader.leader for cursor in cursors if cursor.leader is not None}
        self._owes_nothing(*(self._late.keys() - leaders - {*self._plan.replicas.values()}))

    def _on_refused(self, node: FetchNode, asked: Asked, received: ResponseReceived) -> None:
        error = error_of(received.response.error_code)
        if asked.sessionless:
            self._trace_failure(asked, error.__name__, node.sessionless.again_at - received.now)
            return
        at_once = node.session.refused(error)
        self.log.info("session.restarted", node=asked.node, because=error.__name__)
        if at_once:
            self._owes_nothing(asked.node)
        else:
            if asked.node not in self._refusals:
                self._late[asked.node] = received.now
            self._refusals[asked.node] = error.__name__
            self._failed.pop(asked.node, None)
            self._plan.show_again()
            retry_at = node.backoff.failed(received.now, received.jitter)
            self._trace_failure(asked, error.__name__, retry_at - received.now)
        because = f"node {asked.node} refused a fetch: {error.__name__}"
        refused_by = named_node(asked.node, self._plan.cluster.brokers)
        self._recover(node, received, error(f"{refused_by} refused it"), because)

    @failure_of(FetchRequest)
    def on_fetch_failed(self, failed: RequestFailed) -> None:
        """The session may be closed at the broker: try again later, with a full Fetch."""
        asked: Asked = failed.request.context
        node = self._finished(asked)
        if asked.sessionless:
            # The session's Fetch finds out whether the node or the connection is broken.
            self._trace_failure(asked, failed.error, node.sessionless.again_at - failed.now)
            return
        node.failed()
        if self._refusals.pop(asked.node, None) or asked.node not in self._late:
            self._late[asked.node] = failed.now
        self._failed[asked.node] = failed.now, named(failed.error)
        self._plan.show_again()
        if isinstance(failed.error, KafkaTimeoutError):
            node.bandwidth.timed_out(asked=asked.max_bytes)
        retry_at = node.backoff.failed(failed.now, failed.jitter)
        self._trace_failure(asked, failed.error, retry_at - failed.now)
        for tp in asked.wanted:
            cursor = self._plan.cursors.get(tp)
            if cursor is not None and cursor.prefers(asked.node):
                cursor.leave_replica(because="it does not answer")
        self._recover(node, failed, failed.error, f"a fetch from node {asked.node} failed")
        self._look_again_at(*asked.wanted)

    def _recover(
        self,
        node: FetchNode,
        outcome: ResponseReceived | RequestFailed,
        error: Exception,
        because: str,
    ) -> None:
        """Refresh the metadata: another node may lead by now. Tell the application if no retry
        mends the error."""
        meaning = means(Answer.FETCH, type(error))
        if Do.REFRESH_METADATA in meaning:
            self._say(RefreshMetadata(because=because))
        if Do.RAISE not in meaning:
            return
        answer = self._answer(node.session, outcome)
        answer.refuse_all(error)
        for news in answer.news():
            self._say(news)

    def _trace_failure(self, asked: Asked, because: object, retry_in: float) -> None:
        self.log.warning(
            "fetch.failed",
            node=asked.node,
            partitions=list(asked.wanted),
            because=because,
            # The backoff may be over already: then the wait is 0.
            wait_ms=None if retry_in == NEVER else max(0, round(retry_in * 1000)),
        )
