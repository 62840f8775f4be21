"""Every event of a trace: at which level it is told, when, and with which keys.

`docs/trace.md` is made of these tables (`python -m tests.trace_table`). Tests hold them against
each call in the source, and against each event that the tests cause. No consumer imports this
module; a program that stores events may, to make columns of the keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

__all__ = ["ALWAYS", "EVENTS", "KEYS", "SECTIONS", "EventRow", "Key", "faults_of"]


class Key(NamedTuple):
    """A key of events, which means the same in each of them.

    `types`: what it holds in JSON, of integer, number, text, boolean, list, mapping; null is
    always allowed.
    """

    types: str
    meaning: str


class EventRow(NamedTuple):
    """An event: the levels at which it is told, when, its keys, and those it has sometimes."""

    name: str
    levels: tuple[str, ...]
    when: str
    keys: tuple[str, ...]
    sometimes: tuple[str, ...]


def _event(name: str, levels: str, when: str, keys: str = "", sometimes: str = "") -> EventRow:
    return EventRow(
        name, tuple(levels.split()), when, tuple(keys.split()), tuple(sometimes.split())
    )


#: The keys of every event, whoever tells it.
ALWAYS: Final[Mapping[str, Key]] = {
    "event": Key("text", "its name, `noun.verb`"),
    "level": Key("text", "debug, info, warning or error"),
    "t": Key("number", "wall clock, in seconds since 1970"),
    "mono": Key("number", "a clock that never jumps, in seconds: for durations within a process"),
    "seq": Key("integer", "its number among the events of this consumer that were told, from 1"),
}

#: The keys that are bound to what tells the event.
BOUND: Final[Mapping[str, Key]] = {
    "consumer": Key("text", "the client id"),
    "group": Key("text", "the group id"),
    "actor": Key("text", "who tells the event: an actor, application, broker or control"),
    "incarnation": Key("integer", "which incarnation of the actor: one more after each restart"),
    "member": Key("text", "the member id, in events of membership and commits"),
    "cause": Key("integer", "the `seq` of the event that led to this one, if it is known"),
    "repeated": Key(
        "integer", "in a log above DEBUG: how many events like this one were left out before it"
    ),
}

#: The other keys.
KEYS: Final[Mapping[str, Key]] = {
    "actors": Key("list", "the names of actors"),
    "added": Key("list", "partitions that the rebalance has brought"),
    "address": Key("text", "a broker's, `host:port`"),
    "addresses": Key("list", "of brokers, `host:port`"),
    "after": Key("integer text", "the value, or the state, from now on"),
    "aktor_version": Key("text", "the version of aktor"),
    "allowed_ms": Key("number", "how long it may take, in milliseconds"),
    "api": Key("text", "the name of a Kafka request, such as JoinGroup"),
    "api_version": Key("integer", "the version of the request"),
    "assigned": Key("list", "the partitions that the member is to have"),
    "assignor": Key("text", "the name of the assignor that the group has chosen"),
    "at": Key("text", "at which moment: close, revocation or end (of `process`)"),
    "attempts": Key("integer", "how many attempts were made, with this one"),
    "because": Key("text list mapping", "the reason, or the error as `Type: text`"),
    "before": Key("integer text", "the value, or the state, until now"),
    "brokers": Key("list", "the ids of all brokers"),
    "by_group": Key("boolean", "whether by a rebalance, and not by `assign`"),
    "callback": Key("text", "the method of the rebalance listener"),
    "child": Key("text", "the name of the actor that the supervisor started, stops or restarts"),
    "client": Key("text", "the address of the client of the embedded cluster"),
    "cluster_id": Key("text", "the id of the cluster"),
    "cluster_version": Key("integer", "counts the changes of what is known of the cluster"),
    "command": Key("text", "a command to the control port"),
    "commits": Key("integer", "how many commits one OffsetCommit carries"),
    "committed": Key("integer", "the committed offset"),
    "concurrency": Key("integer", "how many handlers may run at once"),
    "connection": Key("text", "which connection: broker, incarnation of the actor, number"),
    "dead_lettered": Key("integer", "how many records were given to `on_error`"),
    "diverges_at": Key(
        "integer", "the offset at which the leader's log differs from what was read"
    ),
    "ends": Key(
        "mapping", "the offset at which the leader's log differs, and its epoch before that"
    ),
    "error": Key("text", "Kafka's name of the error in a broker's answer"),
    "error_code": Key("integer", "Kafka's number of the error in a broker's answer"),
    "expected": Key("integer", "the offset that was to come next"),
    "ended_ago": Key("number", "how many seconds ago it ended"),
    "failed_ago": Key("number", "how many seconds ago the last failure was"),
    "finished": Key("integer", "how many records were handled"),
    "first_ago": Key("number", "how many seconds ago the first record was given out"),
    "from_offsets": Key("mapping", "the offsets before the reset"),
    "generation": Key("integer", "the group's generation; with KIP-848 the member's epoch"),
    "heartbeat_interval_ms": Key("integer", "the setting; null: brokers decide it, or no group"),
    "isolation": Key("text", "the isolation level"),
    "kafka_python": Key("text", "the version of kafka-python"),
    "kind": Key("text", "of a commit: asked (by a call), auto or revocation"),
    "known": Key("text", "what is held to be true"),
    "last_ago": Key("number", "how many seconds ago the last record was given out"),
    "lag": Key("integer", "records between the position and the end"),
    "leader": Key("integer", "the id of a partition's leader"),
    "leader_epoch": Key("integer", "the epoch of a partition's leader"),
    "leader_epochs": Key("mapping", "the leader epoch of what was read"),
    "leaders": Key("mapping list integer", "the leaders that have changed"),
    "leads": Key("boolean", "whether this member is the group's leader"),
    "left": Key("list", "the records whose handlers did not end in the allowed time"),
    "log_start": Key("integer", "the first offset of the log"),
    "loss": Key("text", "revoked or lost"),
    "members": Key("integer", "how many members the group has, if this one leads"),
    "member_ids": Key(
        "mapping", "of the group's members, if this one leads: each with its static id"
    ),
    "message_type": Key("text", "the type of a message between actors"),
    "method": Key("text", "the name of a method"),
    "missing": Key("list", "topics without metadata"),
    "ms": Key("number", "how long it took, in milliseconds"),
    "new": Key("boolean", "whether the partitions are new"),
    "node": Key("integer", "the id of a broker"),
    "nodes": Key("mapping", "the ids of the brokers that were asked"),
    "of_incarnation": Key("integer", "the incarnation of the child, or the one that had asked"),
    "of_rebalance": Key("integer", "the number of the rebalance that was answered"),
    "offset": Key("integer", "an offset of the partition"),
    "offsets": Key(
        "mapping list", "committed offsets; of `records.delivered` the first and last of each run"
    ),
    "order": Key("text", "which records keep their order: key, partition or none"),
    "others": Key(
        "integer", "how many other partitions wait for the same, told at the level debug"
    ),
    "owned": Key("integer", "how many partitions the member owns"),
    "partition": Key("text", "`topic-partition`"),
    "partition_count": Key("integer", "how many partitions"),
    "partitions": Key("list mapping", "as `topic-partition`; as a mapping, each with its offset"),
    "pattern": Key("text", "the subscribed pattern"),
    "protocol": Key("text", "classic or consumer"),
    "reader": Key("text", "who reads record batches: compiled, or Python and why"),
    "reason": Key("text", "what the partition waits for, see `docs/operate.md`"),
    "rebalance": Key("integer", "the number of the rebalance in this consumer"),
    "replaced_by": Key("text", "what stands in the place of the method"),
    "request": Key("integer", "the number of the request in this consumer"),
    "restarts": Key("integer", "how often the child was restarted"),
    "regex": Key("text", "the pattern that the brokers evaluate; empty: there is none"),
    "resized": Key("mapping", "topics whose number of partitions is another one, with both"),
    "retriable": Key("boolean", "whether the call may be repeated"),
    "revoked": Key("integer", "how many partitions the rebalance has taken away"),
    "seconds": Key("number", "for how long already"),
    "setting": Key("text", "the name of a setting"),
    "since": Key("number", "wall clock when it began, in seconds since 1970"),
    "size": Key("integer", "in bytes"),
    "skipped": Key("integer", "how many records were skipped"),
    "stack": Key("list", "files, lines and functions, the innermost first; no values"),
    "state": Key("text", "the state of the member"),
    "strategy": Key("text", "where a reset leads: earliest, latest, or a duration"),
    "throttle_ms": Key("number", "how long the broker throttles the client, in milliseconds"),
    "ticket": Key("integer", "the number of a question of the application"),
    "times": Key("list", "the timestamp of the first record of each run, in milliseconds"),
    "told": Key("text", "what a broker says"),
    "topic": Key("text", "a topic"),
    "topic_count": Key("integer", "how many topics"),
    "topics": Key("list", "topics; null: all"),
    "topics_added": Key("list", "topics that were not there before"),
    "topics_removed": Key("list", "topics that are not there any more"),
    "traceback": Key("text", "of an error in the embedded cluster"),
    "trigger": Key("text", "what moved the state machine"),
    "unfinished": Key("integer", "how many records were given out and not handled"),
    "unwanted": Key("list", "assigned partitions of topics that are not subscribed any more"),
    "use": Key("text", "what to write instead"),
    "value": Key("integer number text boolean list", "the value of the setting"),
    "wait_ms": Key("number", "until the next attempt, in milliseconds; null: there is none"),
    "workers": Key("text", "who runs the handlers: threads, processes or coroutines"),
}

#: The events, by what they tell of.
SECTIONS: Final[Mapping[str, tuple[EventRow, ...]]] = {
    "the consumer": (
        _event(
            "consumer.started",
            "info",
            "`KafkaConsumer(...)` was called; only its actors tell that they start before it",
            "aktor_version reader kafka_python heartbeat_interval_ms",
        ),
        _event(
            "consumer.closed",
            "info",
            "`close` has ended the consumer, or its constructor raises; the last event of a"
            " consumer",
            "because",
        ),
    ),
    "actors": (
        _event("actor.started", "info", "a child was started", "child of_incarnation"),
        _event(
            "actor.crashed",
            "error",
            "a handler raised",
            "child of_incarnation message_type because",
        ),
        _event(
            "actor.restarted",
            "warning",
            "these children were started afresh",
            "actors because message_type",
        ),
        _event(
            "actor.escalated",
            "error",
            "the restart budget is spent; the consumer fails",
            "child message_type restarts because",
        ),
        _event(
            "actor.stop_failed", "error", "a child raised while it was stopped", "child because"
        ),
        _event("dispatcher.failed", "error", "the dispatching thread ended by an error", "because"),
        _event(
            "watch.failed",
            "error",
            "a look for stalls ended by an error; the next one is a minute later",
            "because",
        ),
        _event(
            "message.dropped",
            "warning",
            "a dead letter: no actor receives this type of message, or its receiver has no handler"
            " for it",
            "message_type because",
        ),
        _event(
            "answer.dropped",
            "debug info",
            "an answer was dropped: its request was given up, or an earlier incarnation of the"
            " actor had sent it",
            "because",
            "api connection of_incarnation ticket",
        ),
        _event(
            "tick.dropped",
            "debug",
            "an answer to a tick that a restart cut short",
            "child of_incarnation",
        ),
    ),
    "connections": (
        _event(
            "bootstrap.started",
            "info",
            "no known broker can be reached; the bootstrap servers are asked",
            "addresses because",
        ),
        _event(
            "bootstrap.failed",
            "warning",
            "none of them can be reached; the application gets an error",
            "because",
        ),
        _event(
            "brokers.unreachable",
            "warning",
            "a bootstrap server answered, but no broker can be reached at its advertised address;"
            " the application gets an error, every 2 s",
            "because",
        ),
        _event(
            "broker.lost",
            "warning",
            "a broker that is needed could not be used for 30 s; `status()` says so for the"
            " partitions that it leads",
            "node address seconds because",
        ),
        _event(
            "broker.returned",
            "info",
            "a broker that could not be used, or did not answer, answers again; `seconds` after the"
            " first failure",
            "node address seconds failed_ago",
        ),
        _event(
            "brokers.reached",
            "info",
            "after `brokers.unreachable`: a broker can be reached",
            "addresses",
        ),
        _event(
            "connection.opened",
            "info",
            "connected, logged in, versions known",
            "address node connection ms",
        ),
        _event(
            "connection.adopted",
            "info",
            "the bootstrap server is this broker; its connection is used further",
            "address node connection",
        ),
        _event(
            "connection.failed",
            "warning",
            "an attempt failed",
            "address node connection because",
        ),
        _event(
            "connection.closed",
            "info",
            "a connection ended",
            "address node connection because",
        ),
        _event("request.sent", "debug", "a request was sent", "api node request"),
        _event(
            "request.answered",
            "debug",
            "its answer has come",
            "api api_version node request ms throttle_ms",
        ),
        _event(
            "request.failed",
            "debug",
            "the request failed without an answer",
            "api node request because",
        ),
    ),
    "cluster": (
        _event("metadata.requested", "debug", "a Metadata request is sent", "topics because"),
        _event(
            "metadata.failed",
            "warning",
            "a Metadata request failed; it is sent again",
            "because wait_ms",
        ),
        _event(
            "metadata.rebootstrapped",
            "warning",
            "a broker sends us back to the bootstrap servers (KIP-1102)",
            "because",
        ),
        _event(
            "cluster.changed",
            "info",
            "brokers, topics or leaders have changed",
            "cluster_version cluster_id brokers topics_added topics_removed leaders resized",
        ),
        _event(
            "cluster.replaced",
            "warning",
            "the brokers at these addresses have another cluster id",
            "before after",
        ),
        _event("topic.deleted", "info", "a topic that is read was deleted", "topic"),
        _event(
            "topic.outdated",
            "info",
            "a broker with old metadata sent the id that the topic had before it was deleted and"
            " created again; this id is ignored",
            "topic told known",
        ),
        _event("topic.recreated", "warning", "a topic has another id now", "topic before after"),
        _event(
            "topic.refused",
            "warning",
            "the topic is unknown, its name is invalid, or the user may not read it; the"
            " application gets an error",
            "topics because",
        ),
        _event(
            "leader.learned",
            "info",
            "a Fetch answer named the new leader (KIP-951), which is asked at once",
            "partition leader leader_epoch because",
        ),
        _event(
            "leader.corrected",
            "warning",
            "an older epoch counts: the leader did not know the one that was told before",
            "partition leader leader_epoch because",
        ),
        _event(
            "leader.dropped",
            "debug",
            "a leader with an older epoch was ignored",
            "partition leader leader_epoch because",
        ),
        _event(
            "lookup.failed",
            "warning",
            "a metadata look-up of the application ended in an error",
            "ticket because",
        ),
    ),
    "group": (
        _event(
            "coordinator.found", "info", "the group's coordinator is known", "group node address"
        ),
        _event(
            "coordinator.lost",
            "info",
            "group requests are held back until it is found again",
            "group node address because",
        ),
        _event(
            "coordinator.retried",
            "debug info",
            "the look-up failed and is repeated",
            "group because attempts wait_ms",
        ),
        _event(
            "coordinator.refused",
            "warning",
            "the user may not use this group",
            "group because wait_ms",
        ),
        _event(
            "coordinator.suspected",
            "info",
            "a broker did not answer as the group's coordinator",
            "node because",
        ),
        _event(
            "suspicion.dropped",
            "debug",
            "the suspected broker is not the coordinator any more",
            "node because",
        ),
        _event(
            "subscription.matched",
            "info",
            "topics that the subscribed pattern matches were created or deleted",
            "pattern topics_added topics_removed",
        ),
        _event(
            "subscription.told",
            "info",
            "KIP-848: a heartbeat tells the coordinator another subscription, by which the group"
            " gets a new epoch",
            "topics regex because",
        ),
        _event(
            "membership.moved",
            "info",
            "the member's state machine took a step",
            "before after trigger because rebalance",
        ),
        _event(
            "rebalance.triggered",
            "info",
            "a rebalance begins for this member; `because` is one of the reasons of"
            " `aktor/trace/reasons.py`, by which the analysis knows the cause",
            "rebalance because member generation owned",
        ),
        _event(
            "rebalance.joined",
            "info",
            "the group has a new generation",
            "rebalance generation member leads members member_ids assignor",
        ),
        _event(
            "assignment.unknown",
            "warning",
            "a static leader that came back does not learn the group's assignment: it watches the"
            " metadata of the topics from now on",
            "because",
        ),
        _event(
            "rebalance.assigned",
            "info",
            "this member is the leader and has assigned the partitions",
            "rebalance assignor members topic_count missing",
        ),
        _event(
            "rebalance.synced",
            "info",
            "this member's part of the assignment is known",
            "rebalance generation assigned unwanted",
        ),
        _event(
            "protocol.chosen",
            "info",
            "the group protocol that the coordinator supports",
            "protocol because",
        ),
        _event(
            "rebalance.target",
            "info",
            "the coordinator has sent a new target assignment (KIP-848)",
            "generation partition_count topic_count",
        ),
        _event(
            "rebalance.unresolved",
            "info",
            "the names of some topic ids in the target assignment are not known yet",
            "topic_count",
        ),
        _event(
            "rebalance.delayed",
            "info",
            "a request of the rebalance failed and is repeated",
            "rebalance state because",
        ),
        _event(
            "rebalance.completed",
            "info",
            "the application has the new assignment",
            "rebalance because ms generation owned added revoked",
        ),
        _event(
            "step.dropped",
            "info",
            "the application has answered a rebalance that is over",
            "message_type of_rebalance rebalance because",
        ),
        _event(
            "step.skipped",
            "info",
            "a rebalance step was skipped: its partitions were lost before",
            "rebalance because",
        ),
        _event(
            "callback.finished",
            "info",
            "a rebalance listener returned",
            "callback partitions ms",
        ),
        _event(
            "callback.failed",
            "warning",
            "a rebalance listener raised",
            "callback partitions because",
        ),
        _event(
            "call.repaired",
            "info",
            "the call before was interrupted (Ctrl-C, a signal handler); the consumer's state was"
            " made consistent again",
        ),
        _event("close.failed", "warning", "`close` failed with this error (more below)", "because"),
        _event(
            "future.failed",
            "warning",
            "what a program added to the `Future` of `commit_async` raised (`SystemExit`) on the"
            " background thread",
            "because",
        ),
        _event(
            "listener.failed",
            "warning",
            "a listener raised; the member stays in the group",
            "rebalance state because",
        ),
        _event(
            "heartbeat.failed",
            "warning",
            "a heartbeat was refused or not answered",
            "because state",
        ),
        _event(
            "heartbeat.late",
            "warning",
            "a heartbeat has had no answer for a second",
            "node address seconds",
        ),
        _event(
            "session.unconfirmed",
            "info",
            "the session may be over: no records are given out until the coordinator has answered",
            "seconds",
        ),
        _event(
            "membership.doubted",
            "info",
            "the member may be expelled already: partitions that it gives up are reported as lost",
            "because",
        ),
        _event(
            "poll.overdue",
            "warning",
            "half of `max_poll_interval_ms` is over without a poll; what the application does",
            "seconds callback stack",
        ),
        _event(
            "clock.set",
            "warning",
            "the wall clock has moved by `seconds` against the monotonic one: it was set, or, if"
            " ahead, the machine slept",
            "seconds",
        ),
        _event(
            "process.stood_still",
            "debug warning",
            "nothing of the consumer ran for `seconds` at least (its process was stopped, say);"
            " `since`: when it is known to have run last; a warning from a second on",
            "seconds since because",
        ),
        _event(
            "poll.late",
            "warning",
            "no poll for `seconds`, more than `max_poll_interval_ms`; the member leaves",
            "seconds state owned because",
        ),
        _event(
            "instance_id.taken",
            "info",
            "the coordinator has a member with the same `group_instance_id`, perhaps this one from"
            " before: LeaveGroup is sent for it",
            "because",
        ),
        _event(
            "member.epoch",
            "debug",
            "the member's epoch in a KIP-848 group has changed",
            "before after member",
        ),
        _event(
            "member.lost",
            "warning",
            "the member was fenced or expelled: its partitions may belong to other members",
            "member generation partitions because",
        ),
        _event("member.left", "info", "LeaveGroup is over", "member because error"),
        _event(
            "member.stayed",
            "warning",
            "the group could not be told that the member leaves, whose session will end it",
            "member because",
        ),
        _event(
            "member.leave_failed", "warning", "the call stopped waiting for LeaveGroup", "because"
        ),
        _event(
            "group.failed",
            "error",
            "the group cannot be used; the application gets an error",
            "state because",
        ),
    ),
    "`process`": (
        _event("process.started", "info", "`process` begins", "workers concurrency order"),
        _event(
            "process.drained",
            "info warning",
            "running handlers were waited for, at a revocation or at the end",
            "partitions left ms allowed_ms",
        ),
        _event(
            "process.ended",
            "info",
            "`process` has returned or raised",
            "because finished skipped dead_lettered unfinished",
        ),
        _event(
            "record.retried",
            "warning",
            "a handler raised; the record is handled again",
            "partition offset attempts because wait_ms",
        ),
        _event(
            "record.skipped",
            "warning",
            'all attempts failed, and `on_error="skip"`',
            "partition offset attempts because",
        ),
        _event(
            "record.dead_lettered",
            "warning",
            "all attempts failed, and `on_error` has handled the record",
            "partition offset attempts because",
        ),
    ),
    "commits": (
        _event(
            "commit.sent",
            "debug",
            "an OffsetCommit is to be sent; its `request.sent` has the same `request`, or the"
            " `request.failed` of one that could not be sent",
            "kind commits offsets generation node attempts request",
        ),
        _event(
            "commit.succeeded",
            "info",
            "the coordinator has stored these offsets",
            "kind offsets ms attempts",
        ),
        _event(
            "commit.retried",
            "info",
            "a commit failed and is sent again",
            "kind because attempts wait_ms",
        ),
        _event(
            "commit.failed",
            "warning",
            "a commit ended in an error",
            "because",
            "kind retriable partitions attempts at offsets",
        ),
        _event(
            "commit.abandoned",
            "warning",
            "the rebalance does not wait any longer for its commit",
            "because",
        ),
        _event("offsets.requested", "debug", "an OffsetFetch was sent", "partitions node"),
        _event("offsets.fetched", "info", "committed offsets are known", "partition_count"),
        _event(
            "offsets.retried",
            "info",
            "an OffsetFetch failed and is sent again",
            "partitions because wait_ms",
        ),
        _event(
            "offsets.failed",
            "warning",
            "a look-up of committed offsets ended in an error",
            "partitions because",
        ),
        _event(
            "offset.dropped",
            "debug",
            "a committed offset was ignored: the partition was revoked meanwhile",
            "partition because",
        ),
    ),
    "positions and data": (
        _event(
            "position.resolved",
            "info",
            "reading starts at the committed offset, or at the offset of a reset",
            "partitions because",
        ),
        _event(
            "partition.judged",
            "info",
            "nothing is committed for these partitions, and `auto_offset_reset` is latest: if they"
            " are new, they are read from their first record",
            "partitions new because",
        ),
        _event(
            "position.reset",
            "info warning",
            "the position was reset: by `auto_offset_reset`, by a call, or since the topic was"
            " created again or the log truncated (more below)",
            "partitions from_offsets strategy because",
        ),
        _event(
            "position.retrying",
            "warning",
            "a look-up of an offset failed and is repeated",
            "partitions because",
        ),
        _event(
            "position.failed",
            "warning",
            "there is no position; the application gets an error",
            "partitions because",
        ),
        _event(
            "position.dropped",
            "debug info",
            "an answer was ignored: the partition has had a seek, a reset or a new assignment"
            " since",
            "partitions because",
        ),
        _event(
            "position.validating",
            "info",
            "a leader was elected since the last record was written: OffsetForLeaderEpoch asks it"
            " whether it has what was read (KIP-320)",
            "partitions",
        ),
        _event(
            "position.validated",
            "info",
            "it has (or cannot be asked, `because`): fetching goes on",
            "partitions because",
        ),
        _event(
            "position.diverged",
            "info",
            "it has not, or a Fetch was answered with a diverging epoch: the application hears of"
            " it",
            "partitions leader_epochs ends nodes",
        ),
        _event(
            "position.kept",
            "info",
            "only records that were fetched ahead were lost: they are dropped and fetched again",
            "partition offset",
        ),
        _event(
            "position.truncated",
            "warning",
            "the log was truncated below the position, and the policy for offsets out of range is"
            " none: each poll raises LogTruncationError until a seek",
            "partition offset diverges_at committed",
        ),
        _event(
            "fetch.failed",
            "warning",
            "a Fetch, or one partition of it, failed and is repeated",
            "node partitions because",
            "wait_ms",
        ),
        _event(
            "fetch.dropped",
            "info",
            "fetched data was dropped: the partition has had a seek, or was revoked",
            "partition because",
            "size error_code",
        ),
        _event(
            "fetch.refused",
            "warning",
            "the broker refused this partition; the application gets an error",
            "partition offset because",
        ),
        _event(
            "fetch.stopped",
            "warning",
            "the partition is not fetched until a seek or a reset",
            "partition offset because",
        ),
        _event(
            "session.restarted", "info", "a fetch session was begun anew (KIP-227)", "node because"
        ),
        _event(
            "replica.preferred",
            "info",
            "records are read from a follower instead of the leader (KIP-392)",
            "partition node",
        ),
        _event(
            "replica.left",
            "info",
            "records are read from the leader again",
            "partition node because",
        ),
        _event(
            "chunk.dropped",
            "debug error",
            "buffered data was dropped: the partition has had a seek, or was revoked",
            "partition offset because",
            "expected",
        ),
        _event(
            "batch.corrupt",
            "warning",
            "a batch is corrupt after so many attempts to fetch it again; the application gets an"
            " error",
            "partition offset because attempts wait_ms",
        ),
        _event(
            "batch.healed",
            "info",
            "the batch was read after so many attempts: it had been damaged on its way from the"
            " broker",
            "partition offset attempts",
        ),
        _event(
            "buffer.dropped",
            "info",
            "buffered data was dropped: of paused partitions, to be fetched again when they are"
            " resumed, or of topics that are not subscribed any more",
            "partitions because",
        ),
        _event(
            "range.shortened",
            "warning",
            "`to_table(skip_deleted=True)` goes on at the first offset of the log, since the"
            " records from `offset` on were deleted",
            "partition offset log_start because",
        ),
    ),
    "what the application owns and is given": (
        _event(
            "partitions.assigned",
            "info",
            "the application owns these partitions (each with its epoch) from now on; in a group,"
            " records are given out when the listener has returned",
            "partitions by_group isolation",
        ),
        _event(
            "partitions.held_back",
            "debug",
            "a rebalance takes these partitions away: no more of their records are given out; the"
            " positions say how far they were read",
            "partitions loss",
        ),
        _event(
            "partitions.revoking",
            "debug",
            "the listener, if there is one, is called",
            "partitions loss",
        ),
        _event(
            "partitions.released",
            "info",
            "the application does not own these partitions any more",
            "partitions",
        ),
        _event(
            "partitions.paused",
            "debug",
            "by a call of the application; `because` (else null): why `process` did",
            "partitions because",
        ),
        _event("partitions.resumed", "debug", "by a call of the application", "partitions"),
        _event(
            "position.sought",
            "debug",
            "by a seek of the application; null: to the beginning or end, and a `position.reset`"
            " follows",
            "partitions",
        ),
        _event(
            "delivery.stalled",
            "debug warning",
            "an owned partition, not paused by the user, gets nothing for a second, or goes on"
            " for another reason; a fault is one warning a reason, with the `others`",
            "topic partition reason because since lag",
            "others",
        ),
        _event(
            "delivery.resumed",
            "debug info",
            "it ended: a record was given out, there is nothing to deliver, the process runs again,"
            " the partition is paused or taken away; info after a fault",
            "topic partition reason seconds ended_ago because",
        ),
        _event(
            "records.delivered",
            "debug",
            "a poll returns these records, or an iteration has given them out (more below)",
            "partition offsets times",
            "first_ago last_ago",
        ),
        _event(
            "records.taken_back",
            "debug",
            "the poll that returned them was interrupted: the position was set back to this offset",
            "partition offset",
        ),
    ),
    "the embedded cluster": (
        _event(
            "broker.connection_refused",
            "info",
            "a client sent bytes that are not a request; its connection is closed",
            "node client because",
        ),
        _event(
            "broker.request_failed",
            "error",
            "a bug in the embedded cluster: a request was answered by UNKNOWN_SERVER_ERROR, or not"
            " at all",
            "api api_version node traceback",
        ),
        _event(
            "broker.turn_failed",
            "error",
            "a bug in the embedded cluster; the server goes on",
            "traceback",
        ),
        _event("control.requested", "debug", "a command came to the control port", "command"),
        _event(
            "control.interrupted", "debug", "its client disconnected before the answer", "because"
        ),
        _event(
            "control.failed",
            "error",
            "a bug in the embedded cluster: a command ended in an error that the client did not"
            " cause",
            "command because traceback",
        ),
    ),
    "monitoring agents": (
        _event(
            "agent.unseen",
            "warning",
            "an agent has replaced a method of kafka-python's class by a function of its own, which"
            " cannot be put around ours",
            "method replaced_by because",
        ),
    ),
    "settings": (
        _event(
            "setting.deprecated",
            "warning",
            "an old name or value was used",
            "setting use",
            "value",
        ),
        _event(
            "setting.ignored",
            "warning",
            "it has no effect together with the other settings",
            "setting because",
        ),
        _event(
            "setting.unwise",
            "warning",
            "it is valid, but may not be intended",
            "setting value because",
        ),
    ),
}

#: The events by their names.
EVENTS: Final[Mapping[str, EventRow]] = {
    row.name: row for section in SECTIONS.values() for row in section
}

_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "text": (str,),
    "boolean": (bool,),
    "list": (list,),
    "mapping": (dict,),
}


def faults_of(event: Mapping[str, Any]) -> Iterator[str]:
    """In what an event, as a listener gets it, differs from its row."""
    name = event.get("event")
    row = EVENTS.get(str(name))
    if row is None:
        yield f"{name} has no row"
        return
    if event.get("level") not in row.levels:
        yield f"{name} is told at the level {event.get('level')}"
    for key in (*ALWAYS, *row.keys):
        if key not in event:
            yield f"{name} has no {key}"
    allowed = {*ALWAYS, *BOUND, *row.keys, *row.sometimes}
    for key, value in event.items():
        if key not in allowed:
            yield f"{name} has {key}, which is not in its row"
        elif not _fits(value, ALWAYS.get(key) or BOUND.get(key) or KEYS[key]):
            yield f"{name} has {key}={value!r}, which is of another type"


def _fits(value: Any, key: Key) -> bool:
    if isinstance(value, float) and not math.isfinite(value):
        return False  # JSON does not have it
    return value is None or any(
        isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
        for kind in key.types.split()
    )
