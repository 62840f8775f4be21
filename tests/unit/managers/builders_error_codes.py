"""Which error codes an answer may have, and which request it answers."""

from __future__ import annotations

from kafka import errors as kafka_errors
from kafka.errors import (
    IncompatibleBrokerVersion,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
)

from aktor.errors import AuthenticationError
from aktor.protocol.error_codes import Answer
from tests.error_table import PARTS
from tests.unit.managers import builders_errors as probes
from tests.unit.managers.builders_errors import Probe, What

#: All that Kafka has, two that kafka-python does not know, and two that nobody knows.
CODES = [*sorted(code for code in kafka_errors.kafka_errors if code), 128, 129, 150, 999]
#: Why a request has no answer.
FAILURES = (
    KafkaTimeoutError("broker b did not answer"),
    KafkaConnectionError("disconnected from broker b"),
    AuthenticationError(broker="b:9092", mechanism="PLAIN", reason="wrong password"),
    IncompatibleBrokerVersion("broker b has no version of it"),
    KafkaError("it cannot be encoded"),
)
#: Each answer in the table, and the probes in which it is refused.
PROBES: dict[Answer, tuple[Probe, ...]] = {
    Answer.API_VERSIONS: (probes.api_versions,),
    Answer.SASL_HANDSHAKE: (probes.sasl_handshake,),
    Answer.SASL_AUTHENTICATE: (probes.sasl_authenticate,),
    Answer.METADATA: (
        probes.metadata,
        probes.metadata_of_question,
        probes.metadata_of_names,
    ),
    Answer.METADATA_TOPIC: (probes.metadata_topic,),
    Answer.METADATA_QUESTION: (probes.metadata_question,),
    Answer.METADATA_NAME: (probes.metadata_name,),
    Answer.FIND_COORDINATOR: (probes.find_coordinator,),
    Answer.LIST_OFFSETS: (probes.list_offsets,),
    Answer.LIST_OFFSETS_BY_TIME: (probes.list_offsets_question,),
    Answer.LIST_ENDS: (probes.list_ends,),
    Answer.OFFSET_FOR_LEADER_EPOCH: (probes.offset_for_leader_epoch,),
    Answer.OFFSET_FETCH: (
        probes.offset_fetch,
        probes.offset_fetch_group,
        probes.offset_fetch_start,
        probes.offset_fetch_last_attempt,
    ),
    Answer.OFFSET_COMMIT: (
        probes.offset_commit,
        probes.offset_commit_848,
        probes.offset_commit_async,
        probes.offset_commit_revocation,
        probes.offset_commit_by_hand,
        probes.offset_commit_with_note,
        probes.offset_commit_next_generation,
    ),
    Answer.JOIN_GROUP: (probes.join_group, probes.join_group_again),
    Answer.SYNC_GROUP: (probes.sync_group, probes.sync_group_again),
    Answer.HEARTBEAT: (probes.heartbeat,),
    Answer.LEAVE_GROUP: (probes.leave_group,),
    Answer.DESCRIBE_GROUPS: (probes.describe_groups,),
    Answer.CONSUMER_JOIN: (
        probes.consumer_join,
        probes.consumer_join_and_close,
        probes.consumer_static_join,
        probes.consumer_auto_join,
    ),
    Answer.CONSUMER_HEARTBEAT: (
        probes.consumer_heartbeat,
        probes.consumer_heartbeat_and_close,
    ),
    Answer.CONSUMER_FREE: (probes.consumer_free,),
    Answer.CONSUMER_LEAVE: (probes.consumer_leave,),
    Answer.FETCH: (probes.fetch_session,),
    Answer.FETCH_PARTITION: (probes.fetch,),
    Answer.FETCH_FOLLOWER: (probes.fetch_replica,),
}
#: The answer in the table to each probe.
ANSWERS = {probe: answer for answer, those in PROBES.items() for probe in those}


def errors_of(answer: Answer) -> list[What]:
    """What can be met in the answer, and in place of it."""
    return [*CODES, *(() if answer in PARTS else FAILURES)]
