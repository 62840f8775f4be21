"""The metadata manager keeps the picture of the cluster fresh, and answers questions about topics.

One request for the tracked topics is in flight at a time. It is sent when somebody needs a topic
that is not in the picture, when somebody found the picture stale, when it is old, and, with a
growing backoff, while a tracked topic is unknown or a partition has no leader.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kafka.errors import (
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    UnknownTopicOrPartitionError,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import TopicPartition

from aktor.actors.runtime.exchange import Exchange
from aktor.actors.runtime.handlers import after_restart_of, answers_to, failure_of, handles
from aktor.actors.runtime.manager import NEVER, Duty, RequestManager
from aktor.address import written
from aktor.events.answers import Answered, Failed
from aktor.events.metadata import (
    Broker,
    Cluster,
    ClusterChanged,
    DescribeTopics,
    LeaderEpochsUnknown,
    LeadersMoved,
    NameTopics,
    PartitionInfo,
    RefreshMetadata,
    TopicInfo,
    TopicsNamed,
    TopicsRefused,
    TrackTopics,
)
from aktor.events.network import (
    BrokerRefused,
    Destination,
    Rebootstrap,
    RequestFailed,
    ResponseReceived,
)
from aktor.events.present import MetadataNow
from aktor.events.routes import APPLICATION, MEMBERSHIP, METADATA, NETWORK
from aktor.managers.metadata.leader_epochs import DoubtedEpochs
from aktor.managers.metadata.refresh import Refresh
from aktor.managers.metadata.topics import FormerIds, MissingTopics, TrackedTopics, UnnamedTopics
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.protocol.partitions import name_of_partition
from aktor.protocol.refusals import explained, named_node, topics_refused
from aktor.protocol.remedies import remedy
from aktor.values import Mutable, Value, replace

__all__ = ["MetadataManager"]

#: How long a broker may take for its first answer, in seconds.
PATIENCE: Final = 3.0

#: Before Metadata v9 (Kafka 2.4) a broker may tell leader epochs that lag behind (KAFKA-9212).
RELIABLE_EPOCHS: Final = 9

#: Versions of incarnation n begin at n times this: a restart must not make the version smaller.
VERSIONS_PER_INCARNATION: Final = 1_000_000_000


class _RefreshSent(Value, kw_only=False):
    """Context of a request for the snapshot."""


class _Missing(Value, kw_only=False):
    """Stands for a topic that we need and that an answer with all topics does not have."""

    name: str
    error_code: int = UnknownTopicOrPartitionError.errno


class _QuestionSent(Value, kw_only=False):
    """Context of a request for a question."""

    ticket: int


class _NamingSent(Value, kw_only=False):
    """Context of a request for the names of topics."""


class _Question(Mutable, kw_only=False):
    """A question on its way."""

    asked: DescribeTopics
    exchange: Exchange
    since: float | None = None

    def sent(self, now: float) -> None:
        """A request for it is on its way: the first one, or another attempt."""
        if self.since is None:
            self.since = now
        self.exchange.sent()

    def waited(self, now: float) -> float:
        """How long ago the first request for it was sent, in seconds."""
        assert self.since is not None, "an answer to a question that was never sent"
        return now - self.since


class MetadataManager(RequestManager):
    """Owns the cluster snapshot, the topics to keep fresh in it, and the questions about topics."""

    name = METADATA
    NEEDS = (NETWORK,)
    READS = (
        "allow_auto_create_topics",
        "bootstrap_servers",
        "metadata_max_age",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.cluster = Cluster(version=(self.incarnation - 1) * VERSIONS_PER_INCARNATION)
        self._tracked = TrackedTopics()
        self._questions: dict[int, _Question] = {}
        self._unnamed = UnnamedTopics(self.settings)

        # A fresh consumer asks for the brokers at once. A restarted manager first waits to hear
        # again what is tracked: a snapshot without topics would look as if they were deleted.
        answered_at = -math.inf if self.incarnation == 1 else math.inf
        self._refreshing = Refresh(self.settings, answered_at=answered_at)

        self._missing = MissingTopics()
        #: Whether an answer with all topics came since the pattern was set. A topic that matches
        #: and was not in that answer is new.
        self._pattern_answered = False
        self._former_ids = FormerIds()
        self._doubted = DoubtedEpochs()

    def note_present(self, now: float) -> None:
        """Show the topics that are needed and are not described."""
        troubles = self._missing.troubles()
        before = self.present if isinstance(self.present, MetadataNow) else None
        if before is None or troubles != before.troubles:
            self.present = MetadataNow(troubles=troubles)

    # -- what others want

    @handles(TrackTopics)
    def on_track_topics(self, track: TrackTopics) -> None:
        """Ask for new topics at once; drop topics that no owner tracks any more."""
        before, pattern = self._tracked.named, self._tracked.pattern_of(track.owner)
        if track.owner == APPLICATION:
            self._ask_again(track.topics - self._tracked.named_by(APPLICATION))
        self._tracked.track(track)
        after = self._tracked.named
        if track.pattern != pattern:
            self._pattern_answered = False

        if after - before or (track.pattern is not None and track.pattern != pattern):
            self._refreshing.at_once("new topics are tracked")
            self._refreshing.forget_unresolved()
        gone = before - after if pattern is None else self.cluster.topics.keys() - after
        gone = frozenset(topic for topic in gone if not self._is_matched(topic))
        if gone:
            self._forget(gone)

    def _is_matched(self, topic: str) -> bool:
        """Whether the topic is in the snapshot, and a pattern matches it."""
        info = self.cluster.topics.get(topic)
        return info is not None and self._tracked.is_matched(topic, info)

    def _ask_again(self, topics: frozenset[str]) -> None:
        """The user subscribes to these topics. If a topic was refused before, and is still tracked
        for the group, forget the refusal: it is told only once, and the application must hear of it
        for this subscription, too."""
        if self._missing.forget_refusals(topics):
            self._refreshing.at_once("a topic that was refused is subscribed to")

    def _forget(self, gone: frozenset[str]) -> None:
        self._missing.forget(gone)
        for topic in gone:
            self._former_ids.forget(topic)
            for partition in self.cluster.partitions_for_topic(topic) or ():
                self._doubted.forget(TopicPartition(topic, partition))
        kept = {name: info for name, info in self.cluster.topics.items() if name not in gone}
        self._take(self.cluster.cluster_id, self.cluster.brokers, kept)

    @handles(RefreshMetadata)
    def on_refresh_metadata(self, refresh: RefreshMetadata) -> None:
        """Ask again soon."""
        self._refreshing.soon(refresh.because)

    @handles(LeadersMoved)
    def on_leaders_moved(self, moved: LeadersMoved) -> None:
        """Take over newer leaders that a Fetch answer named, and where they are (KIP-951)."""
        topics, brokers = dict(self.cluster.topics), dict(self.cluster.brokers)
        for (topic, partition), new in moved.leaders.items():
            known = topics.get(topic)
            old = known.partitions.get(partition) if known is not None else None
            if known is None or old is None or new.leader_epoch <= old.leader_epoch:
                continue
            if known.topic_id != moved.topic_ids.get(topic):
                continue  # created anew since: its leader epochs have begun again
            if new.leader in moved.brokers:
                brokers[new.leader] = moved.brokers[new.leader]
            if new.leader not in brokers:
                self._refreshing.soon(
                    f"the new leader {new.leader} of {topic}-{partition} is unknown"
                )
                continue
            topics[topic] = TopicInfo(
                topic_id=known.topic_id,
                partitions={**known.partitions, partition: new},
                internal=known.internal,
                had=known.had,
            )
        self._take(self.cluster.cluster_id, brokers, topics)

    @handles(LeaderEpochsUnknown)
    def on_leader_epochs_unknown(self, told: LeaderEpochsUnknown) -> None:
        """Ask again if a leader has not known the epoch for a while: an older one counts then."""
        for tp, epoch in told.epochs.items():
            known = self.cluster.leader(*tp)
            if known is None or known.leader_epoch != epoch:
                continue
            if self._doubted.refused(tp, epoch, told.now):
                because = f"the leader of {name_of_partition(tp)} does not know its epoch {epoch}"
                self._refreshing.soon(because)

    @handles(DescribeTopics)
    def on_describe_topics(self, asked: DescribeTopics) -> None:
        """Keep the question; a duty sends it."""
        self._questions[asked.ticket] = _Question(asked, Exchange(self.settings))

    @handles(NameTopics)
    def on_name_topics(self, asked: NameTopics) -> None:
        """Ask for these by their ids, until all are known."""
        self._unnamed.ask_for(asked.topic_ids)

    @after_restart_of(MEMBERSHIP)
    def on_membership_restarted(self) -> None:
        """Drop what the old member had tracked or asked for. The new one begins with nothing."""
        self._unnamed.ask_for(frozenset())
        self.on_track_topics(TrackTopics(owner=MEMBERSHIP, topics=frozenset()))

    # -- what is sent

    def duties(self) -> tuple[Duty, ...]:
        """It refreshes the snapshot, names topics, and answers questions."""
        return (self._refresh, self._ask_names, self._ask_questions)

    def _refresh(self, now: float, _jitter: float) -> float:
        due = self._refreshing.due
        if now < due:
            return due
        topics = self._tracked.named - self._missing.invalid
        self.log.debug("metadata.requested", topics=topics, because=self._refreshing.because)
        body = _metadata_request(
            None if self._tracked.has_pattern else topics,
            create=self.settings.allow_auto_create_topics,
        )
        deadline = now + self._refreshing.exchange.patience(PATIENCE)
        self._refreshing.sent()
        self.send(self.request(body, to=Destination.ANY, deadline=deadline, context=_RefreshSent()))
        return NEVER

    def _ask_questions(self, now: float, _jitter: float) -> float:
        if not self._questions:
            return NEVER
        for question in self._questions.values():
            if now >= question.exchange.due:
                self._ask(question, now)
        return min((question.exchange.due for question in self._questions.values()), default=NEVER)

    def _ask(self, question: _Question, now: float) -> None:
        asked = question.asked
        # Asking creates nothing: kafka-python's `partitions_for_topic` and `topics` do not.
        body = _metadata_request(asked.topics, create=False)
        deadline = min(asked.deadline, now + question.exchange.patience(PATIENCE))
        question.sent(now)
        note = _QuestionSent(asked.ticket)
        self.send(self.request(body, to=Destination.ANY, deadline=deadline, context=note))

    def _ask_names(self, now: float, _jitter: float) -> float:
        due = self._unnamed.due
        if now < due:
            return due
        body = self._unnamed.request()
        deadline = now + self._unnamed.patience(PATIENCE)
        self._unnamed.sent()
        self.send(self.request(body, to=Destination.ANY, deadline=deadline, context=_NamingSent()))
        return NEVER

    # -- what is answered

    @answers_to(MetadataRequest, note=_RefreshSent)
    def on_refreshed(self, received: ResponseReceived) -> None:
        """The answer has the brokers and the tracked topics as they are now, or an error."""
        error = self._refusal(received)
        if error is None:
            self._refreshed(received)
        else:
            self._refresh_failed(error, received.now, received.jitter)

    @failure_of(MetadataRequest, note=_RefreshSent)
    def on_refresh_failed(self, failed: RequestFailed) -> None:
        """Try again after the backoff; the network then chooses another node."""
        self._refresh_failed(failed.error, failed.now, failed.jitter)

    def _refusal(self, received: ResponseReceived) -> Exception | None:
        """The error of an answer as a whole, if it has one. REBOOTSTRAP_REQUIRED sends us back to
        the bootstrap servers."""
        by = named_node(received.node, self.cluster.brokers)
        error = _refusal_of(received.response, by)
        if error is not None and Do.REBOOTSTRAP in means(Answer.METADATA, type(error)):
            self._rebootstrap(name_of(type(error)))
        return error

    def _rebootstrap(self, because: str) -> None:
        """Forget the brokers, so that the bootstrap servers are asked (KIP-1102).

        The topics stay as they are until a broker describes them: if they went, positions would be
        lost, though the cluster may be the same.
        """
        self.log.warning("metadata.rebootstrapped", because=because)
        self._say(Rebootstrap(because=because))
        self._take(self.cluster.cluster_id, {}, self.cluster.topics)
        self._refreshing.soon(because)

    def _refresh_failed(self, error: Exception, now: float, jitter: float) -> None:
        retry_at = self._refreshing.exchange.failed(now, jitter)
        self.log.warning("metadata.failed", because=error, wait_ms=round((retry_at - now) * 1000))
        if Do.RAISE in means(Answer.METADATA, type(error)):
            self._say(BrokerRefused(error=explained(error, "the cluster", Answer.METADATA)))

    def _refreshed(self, received: ResponseReceived) -> None:
        self._refreshing.answered(received.now)
        topics, refusals = self._judge_topics(received)
        self._take(received.response.cluster_id, _brokers(received.response), topics)
        self._refreshing.back_off(received.now, received.jitter)
        for refusal in refusals:
            self._say(refusal)

    def _judge_topics(
        self, received: ResponseReceived
    ) -> tuple[dict[str, TopicInfo], tuple[TopicsRefused, ...]]:
        """The topics of the next snapshot, and the messages about topics that are refused.

        A topic with an error that passes, or that is missing in the answer, stays as it was.
        """
        tracked, now = self._tracked.named, received.now
        topics = dict(self.cluster.topics)
        newly_refused: dict[type[Exception], set[str]] = {}
        for answer in self._answers(received, tracked):
            name = answer.name
            kind = error_of(answer.error_code)
            meaning = means(Answer.METADATA_TOPIC, kind)
            is_born = self._is_born(answer, received.response.API_VERSION)
            if Do.AWAIT_TOPIC in meaning:
                refuse = self._is_lastingly_unknown(name, topics, now)
            else:
                self._missing.not_unknown(name)
                refuse = Do.RAISE in meaning
            if Do.DONE in meaning:
                self._missing.described(name)
                version = received.response.API_VERSION
                topics[name] = self._merge(name, _topic_info(answer, version), is_born=is_born)
            elif refuse:
                self._leave_out(name, topics)
                if self._missing.refuse(name, kind, now):
                    newly_refused.setdefault(kind, set()).add(name)
            elif name not in topics and Do.AWAIT_TOPIC not in meaning:
                self._missing.fails(name, kind, now)
        if received.request.body.topics is None:
            self._pattern_answered = self._tracked.has_pattern
        by = named_node(received.node, self.cluster.brokers)
        return topics, tuple(self._refuse(*each, by) for each in newly_refused.items())

    def _is_born(self, answer: Any, version: int | None) -> bool:
        """Whether a topic that is not in the snapshot came into being while we looked for it: by
        its name, or by a pattern."""
        if self._missing.is_absent(answer.name):
            return True
        return self._pattern_answered and self._matches_a_pattern(answer, version)

    def _answers(self, received: ResponseReceived, tracked: frozenset[str]) -> Iterator[Any]:
        """The parts of the response about topics that are tracked, or that a pattern matches.

        If all topics were asked for, a topic that does not exist is left out of the response: for
        such a topic this yields `_Missing`.
        """
        response = received.response
        for answer in response.topics:
            if answer.name in tracked or self._matches_a_pattern(answer, response.API_VERSION):
                yield answer
        if received.request.body.topics is None:
            needed = tracked | self.cluster.topics.keys()
            for name in sorted(needed - {topic.name for topic in response.topics}):
                yield _Missing(name)

    def _matches_a_pattern(self, answer: Any, version: int | None) -> bool:
        """Whether a pattern matches the topic that an answer describes."""
        if answer.error_code or not self._tracked.has_pattern:
            return False
        return self._tracked.is_matched(answer.name, _topic_info(answer, version))

    def _is_lastingly_unknown(self, name: str, topics: dict[str, TopicInfo], now: float) -> bool:
        """An answer does not know the topic; True if the application should hear of it."""
        if not self._missing.count_unknown(name, now):
            return False
        if self._leave_out(name, topics):
            self.log.info("topic.deleted", topic=name)
        if name not in self._tracked.named:
            self._missing.forget((name,))  # a pattern found it: there is nothing to wait for
            return False
        by_application = name in self._tracked.named_by(APPLICATION)
        return by_application and self._missing.never_existed(name, now)

    def _leave_out(self, name: str, topics: dict[str, TopicInfo]) -> bool:
        """The topic is not in the next snapshot; False if it is not in the last one either."""
        info = topics.pop(name, None)
        if info is not None:
            self._former_ids.left(name, info)
        return info is not None

    def _refuse(self, kind: type[Exception], names: set[str], by: str) -> TopicsRefused:
        error: Exception
        if kind is UnknownTopicOrPartitionError:
            error = UnknownTopicOrPartitionError(
                f"no broker knows the topic {', '.join(sorted(names))};"
                f" {remedy(Answer.METADATA_TOPIC, kind)}"
            )
        else:
            error = topics_refused(kind, names, Answer.METADATA_TOPIC, by=by)
        self.log.warning("topic.refused", topics=names, because=error)
        return TopicsRefused(topics=frozenset(names), error=error)

    def _merge(self, name: str, new: TopicInfo, *, is_born: bool) -> TopicInfo:
        """The new answer, except where a broker that lags behind told us something older.

        For the same topic, leader epochs do not go back and partitions do not disappear.
        """
        old = self.cluster.topics.get(name)
        if old is None:
            before = self._former_ids.returned(name, new.topic_id)
            if before is not None:  # brokers that lag, or restart, did not know it for a while
                return replace(new, had=before.had)
            return replace(new, had=0 if is_born else len(new.partitions))
        if new.topic_id != old.topic_id and None not in (new.topic_id, old.topic_id):
            return self._replace(name, old, new)
        self._former_ids.confirm(name)
        partitions = dict(new.partitions)
        for partition, known in old.partitions.items():
            told = partitions.get(partition)
            if told is None:
                if new.topic_id is not None and new.topic_id == old.topic_id:
                    partitions[partition] = known
            elif 0 <= told.leader_epoch < known.leader_epoch:
                partitions[partition] = self._elder(TopicPartition(name, partition), told, known)
            else:
                self._doubted.forget(TopicPartition(name, partition))
        return TopicInfo(
            topic_id=new.topic_id if new.topic_id is not None else old.topic_id,
            partitions=dict(sorted(partitions.items())),
            internal=new.internal,
            had=old.had,
        )

    def _elder(
        self, tp: TopicPartition, told: PartitionInfo, known: PartitionInfo
    ) -> PartitionInfo:
        """What counts after an answer with an older epoch: what is known, unless the leader does
        not know that epoch."""
        facts = {"partition": tp, "leader": told.leader, "leader_epoch": told.leader_epoch}
        if self._doubted.is_wrong(tp, known.leader_epoch):
            self._doubted.forget(tp)
            because = f"the leader does not know epoch {known.leader_epoch}"
            self.log.warning("leader.corrected", **facts, because=because)
            return told
        because = f"epoch {known.leader_epoch} is known already"
        self.log.debug("leader.dropped", **facts, because=because)
        return known

    def _replace(self, name: str, old: TopicInfo, new: TopicInfo) -> TopicInfo:
        """A topic was deleted and created again, unless a broker that lags told a former id."""
        was_known = self._former_ids.has(name, new.topic_id)
        if self._former_ids.is_outdated(name, new.topic_id, old.topic_id):
            self._refreshing.soon(f"a broker told an earlier id of {name}")
            self.log.info("topic.outdated", topic=name, told=new.topic_id, known=old.topic_id)
            return old
        self.log.warning("topic.recreated", topic=name, before=old.topic_id, after=new.topic_id)
        return replace(new, had=len(new.partitions) if was_known else 0)

    # -- the snapshot

    def _take(
        self,
        cluster_id: str | None,
        brokers: Mapping[int, Broker],
        topics: Mapping[str, TopicInfo],
    ) -> None:
        """The only place where the snapshot is replaced; tells others if anything is different."""
        old = self.cluster
        self.cluster = Cluster(
            version=old.version,
            cluster_id=cluster_id,
            brokers=brokers,
            topics=topics,
            unknown=frozenset(self._missing.unknown - topics.keys()),
            forbidden=self._missing.forbidden,
        )
        if self.cluster == old:
            self.cluster = old
        else:
            self.cluster = replace(self.cluster, version=old.version + 1)
            self._trace_change(old, self.cluster)
        self._refreshing.lacks_something(self._lacks_something())
        if self.cluster is not old:
            self._say(ClusterChanged(cluster=self.cluster))

    def _lacks_something(self) -> bool:
        """True while asking again soon may help."""
        if self._missing.unknown:
            return True
        for name in self._tracked.named:
            info = self.cluster.topics.get(name)
            if info is None:
                if self._missing.may_appear(name):
                    return True
            elif any(
                partition.leader not in self.cluster.brokers
                for partition in info.partitions.values()
            ):
                return True
        return False

    def _trace_change(self, old: Cluster, new: Cluster) -> None:
        leaders = {
            TopicPartition(topic, partition): info.leader
            for topic, found in new.topics.items()
            if topic in old.topics
            for partition, info in found.partitions.items()
            if old.topics[topic].partitions.get(partition) != info
        }
        resized = {
            topic: [len(old.topics[topic].partitions), len(found.partitions)]
            for topic, found in new.topics.items()
            if topic in old.topics and len(old.topics[topic].partitions) != len(found.partitions)
        }
        self.log.info(
            "cluster.changed",
            cluster_version=new.version,
            cluster_id=new.cluster_id,
            brokers=sorted(new.brokers),
            topics_added=new.topics.keys() - old.topics.keys(),
            topics_removed=old.topics.keys() - new.topics.keys(),
            leaders=leaders,
            resized=resized,
        )
        if old.cluster_id is not None and old.cluster_id != new.cluster_id:
            self.log.warning("cluster.replaced", before=old.cluster_id, after=new.cluster_id)

    # -- names

    @answers_to(MetadataRequest, note=_NamingSent)
    def on_named(self, received: ResponseReceived) -> None:
        """The names of topic ids; those that the answer does not name are asked for again."""
        self._refusal(received)
        names = {
            topic.topic_id: topic.name
            for topic in received.response.topics
            if Do.DONE in means(Answer.METADATA_NAME, error_of(topic.error_code)) and topic.name
        }
        self._unnamed.answered(names, received.now, received.jitter)
        if names:
            self._say(TopicsNamed(names=names))

    @failure_of(MetadataRequest, note=_NamingSent)
    def on_naming_failed(self, failed: RequestFailed) -> None:
        """Ask again after the backoff."""
        self._unnamed.failed(failed.now, failed.jitter)

    # -- questions

    @answers_to(MetadataRequest, note=_QuestionSent)
    def on_looked_up(self, received: ResponseReceived) -> None:
        """The answer has the topics that a call has asked about, or an error."""
        sent: _QuestionSent = received.request.context
        ticket, error = sent.ticket, self._refusal(received)
        question = self._questions[ticket]
        if error is not None:
            self._retry_question(ticket, error, received.now, received.jitter)
            return
        found: dict[str, TopicInfo] = {}
        refused: dict[type[Exception], set[str]] = {}
        unavailable: dict[str, Exception] = {}
        for answer in received.response.topics:
            kind = error_of(answer.error_code)
            meaning = means(Answer.METADATA_QUESTION, kind)
            if not answer.error_code:
                found[answer.name] = _topic_info(answer, received.response.API_VERSION)
            elif Do.RAISE in meaning:
                refused.setdefault(kind, set()).add(answer.name)
            elif Do.RETRY in meaning:
                unavailable[answer.name] = kind(answer.name)

        if refused:
            kind, names = next(iter(refused.items()))
            by = named_node(received.node, self.cluster.brokers)
            error = topics_refused(kind, names, Answer.METADATA_QUESTION, by=by)
            self._end_question(Failed(ticket=ticket, error=error))
            return
        # When all topics were asked for, one that is just being created is not worth the wait.
        if unavailable and question.asked.topics is not None:
            first = next(iter(unavailable.values()))
            self._retry_question(ticket, first, received.now, received.jitter)
            return
        self._end_question(Answered(ticket=ticket, value=found))

    @failure_of(MetadataRequest, note=_QuestionSent)
    def on_look_up_failed(self, failed: RequestFailed) -> None:
        """Ask again after the backoff."""
        sent: _QuestionSent = failed.request.context
        self._retry_question(sent.ticket, failed.error, failed.now, failed.jitter)

    def _retry_question(self, ticket: int, error: Exception, now: float, jitter: float) -> None:
        """Ask again after the backoff, or give up if the deadline comes first."""
        question = self._questions[ticket]
        if Do.RAISE in means(Answer.METADATA_QUESTION, type(error)):
            what = _described(question.asked.topics)
            error = explained(error, what, Answer.METADATA_QUESTION)
            self._end_question(Failed(ticket=ticket, error=error))
            return
        if question.exchange.failed(now, jitter) < question.asked.deadline:
            return
        what = _described(question.asked.topics)
        servers = ", ".join(written(*server) for server in self.settings.bootstrap_servers)
        timeout = KafkaTimeoutError(
            f"no broker described {what} within {question.waited(now):.1f} s"
            f" ({question.exchange.failures} attempts); the last one failed with {error}."
            f" Check that the brokers are up and can be reached (bootstrap_servers: {servers})."
        )
        self._end_question(Failed(ticket=ticket, error=timeout))

    def _end_question(self, end: Answered | Failed) -> None:
        del self._questions[end.ticket]
        if isinstance(end, Failed):
            self.log.warning("lookup.failed", ticket=end.ticket, because=end.error)
        self._say(end)


def _described(topics: Iterable[str] | None) -> str:
    return "all topics" if topics is None else f"the topics {', '.join(sorted(topics))}"


def _metadata_request(topics: Iterable[str] | None, *, create: bool) -> Any:
    """By name; None asks for all topics, an empty collection for the brokers alone (v1+)."""
    named = topics and [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(topics)]
    return MetadataRequest(
        topics=None if topics is None else (named or []),
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
        min_version=1,
    )


def _refusal_of(response: Any, by: str) -> Exception | None:
    """Why an answer as a whole is of no use: a broker that knows no broker is starting up."""
    if response.error_code:
        error_type = error_of(response.error_code)
        return error_type(f"{by} refused the request ({name_of(error_type)})")
    return None if response.brokers else MetadataEmptyBrokerList(f"{by} names no broker")


def _brokers(response: Any) -> dict[int, Broker]:
    return {
        broker.node_id: Broker(
            node_id=broker.node_id, host=broker.host, port=broker.port, rack=broker.rack
        )
        for broker in response.brokers
    }


def _topic_info(answer: Any, version: int | None) -> TopicInfo:
    reliable = version is None or version >= RELIABLE_EPOCHS
    return TopicInfo(
        topic_id=answer.topic_id or None,
        partitions={
            partition.partition_index: PartitionInfo(
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch
                if reliable and partition.leader_epoch is not None
                else -1,
            )
            for partition in sorted(answer.partitions, key=lambda each: int(each.partition_index))
        },
        internal=bool(answer.is_internal),
    )
