"""Why the coordinator refused a member of a KIP-848 group, and what the user can do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupIdNotFoundError,
    GroupMaxSizeReachedError,
    KafkaError,
    TopicAuthorizationFailedError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
    UnsupportedVersionError,
)

from aktor.errors import InvalidRegularExpressionError
from aktor.events.metadata import Broker
from aktor.managers.membership.classic.errors import named, remedy_of
from aktor.protocol.error_codes import name_of
from aktor.settings import Settings

__all__ = ["no_patterns", "refusal"]

REMEDIES: Final[Mapping[type[Exception], str]] = {
    GroupAuthorizationFailedError: "grant this principal READ on the group",
    TopicAuthorizationFailedError: "grant this principal DESCRIBE on the topics of its"
    " subscription; it is tried again with every heartbeat",
    GroupMaxSizeReachedError: "run fewer members or raise the brokers' group.consumer.max.size",
    FencedInstanceIdError: "another consumer has the same group_instance_id; give each its own",
    UnreleasedInstanceIdError: "another consumer with the same group_instance_id is in the group;"
    " give each its own, or close that one first",
    UnsupportedAssignorError: "choose one of the brokers' assignors for group_remote_assignor, or"
    " leave it out",
    InvalidRegularExpressionError: "mend the pattern (brokers use the syntax of RE2), and subscribe"
    " to it with a new consumer",
    UnsupportedVersionError: "the cluster does not have the consumer group protocol of KIP-848"
    " (Kafka 4.0 and newer, with the feature group.version 1); set group_protocol to 'classic' or"
    " 'auto'",
    GroupIdNotFoundError: "the group exists with another protocol that may not be changed while it"
    " has members; set group_protocol to 'classic' or 'auto', or set the brokers'"
    " group.consumer.migration.policy",
}


def refusal(
    error: type[Exception],
    error_message: str,
    *,
    settings: Settings,
    coordinator: Broker | None,
    member: str,
    regex: str = "",
) -> Exception:
    """The error with what a reader needs: which group, broker and member, what to do.

    `error_message` is the coordinator's own, "" if it gave none; `regex` is the pattern that
    brokers were to evaluate.
    """
    remedy = remedy_of(REMEDIES, error)
    if regex and issubclass(error, UnsupportedVersionError):
        remedy = no_patterns(regex)
    explained = f" ({error_message})" if error_message else ""
    who = settings.group_instance_id or member
    text = (
        f"{name_of(error)}: {named(coordinator)} refused group {settings.group_id!r}"
        f" (member: {who}){explained}; {remedy}"
    )
    made: Exception = error(text) if issubclass(error, KafkaError) else KafkaError(text)
    return made


def no_patterns(regex: str) -> str:
    """What to do where the brokers cannot evaluate the pattern."""
    return (
        f"the SubscriptionPattern {regex!r} takes brokers that evaluate it (Kafka 4.0 and newer,"
        " with the feature group.version 1) and the consumer group protocol; give a pattern of"
        " Python's re as a str instead"
    )
