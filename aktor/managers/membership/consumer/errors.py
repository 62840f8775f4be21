"""Why the coordinator refused a member of a KIP-848 group, and what the user can do about it."""

from __future__ import annotations

from kafka.errors import KafkaError, UnsupportedVersionError

from aktor.events.metadata import Broker
from aktor.managers.membership.classic.errors import named
from aktor.protocol.error_codes import Answer, name_of
from aktor.protocol.remedies import remedy
from aktor.settings import Settings

__all__ = ["no_patterns", "refusal"]


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
    to_do = remedy(Answer.CONSUMER_JOIN, error)
    if regex and issubclass(error, UnsupportedVersionError):
        to_do = no_patterns(regex)
    explained = f" ({error_message})" if error_message else ""
    who = settings.group_instance_id or member
    text = (
        f"{name_of(error)}: {named(coordinator)} refused group {settings.group_id!r}"
        f" (member: {who}){explained}; {to_do}"
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
