"""Why the coordinator refused the group: the error a user reads, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka.errors import (
    FencedInstanceIdError,
    GroupAuthorizationFailedError,
    GroupMaxSizeReachedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    UnsupportedVersionError,
)

from aktor.events.metadata import Broker
from aktor.protocol.error_codes import name_of

__all__ = ["assignor_failed", "named", "refusal", "remedy_of"]

REMEDIES: Final[Mapping[type[Exception], str]] = {
    GroupAuthorizationFailedError: "grant this principal READ on the group",
    InconsistentGroupProtocolError: "offer an assignor in partition_assignment_strategy that all"
    " members of the group have in common; or set group_protocol to 'consumer', if the"
    " group speaks it and may not be converted (the brokers' group.consumer.migration.policy)",
    InvalidSessionTimeoutError: "choose session_timeout_ms between the brokers'"
    " group.min.session.timeout.ms and group.max.session.timeout.ms",
    InvalidGroupIdError: "choose another group_id",
    GroupMaxSizeReachedError: "run fewer members or raise the brokers' group.max.size",
    FencedInstanceIdError: "another consumer has the same group_instance_id; give each its own",
    UnsupportedVersionError: "the brokers are too old for what this consumer asks of the group",
}


def named(coordinator: Broker | None) -> str:
    """The coordinator as an error names it; None if it has gone meanwhile."""
    if coordinator is None:
        return "the coordinator"
    return f"the coordinator, {coordinator},"


def remedy_of(remedies: Mapping[type[Exception], str], error: type[Exception]) -> str:
    """What to do about an error, or a subclass of it."""
    known = (remedies[kind] for kind in error.__mro__ if kind in remedies)
    return next(known, "see the broker's log")


def refusal(
    error: type[Exception], *, group: str | None, coordinator: Broker | None, member: str
) -> Exception:
    """The error with what a reader needs: which group, broker and member, what to do."""
    remedy = remedy_of(REMEDIES, error)
    return error(
        f"{name_of(error)}: {named(coordinator)} refused group {group!r}"
        f" (member: {member or 'not joined yet'}); {remedy}"
    )


def assignor_failed(
    error: BaseException | None, *, group: str | None, assignor: str | None
) -> Exception:
    """The error if an assignor raised: that is the fault of the user's code, or of another member's
    subscription, and no reason for the actor to crash."""
    failure: Exception = KafkaError(
        f"the assignor {assignor!r} failed in group {group!r}"
        f" ({type(error).__name__}: {error}); use another partition_assignment_strategy or"
        " mend the assignor"
    )
    failure.__cause__ = error
    return failure
