"""Whether the group has this KIP-848 member, as far as we know, and which fields it was told."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Final

from aktor.managers.membership.consumer.heartbeats import Report, SentFields
from aktor.settings import Settings
from aktor.state_table import follow

__all__ = ["TRANSITIONS", "Registration", "RegistrationEvent", "RegistrationStatus"]


class RegistrationStatus(enum.Enum):
    """Whether the group has a member under our member id.

    The member's state says what we do; this status says whether a leave heartbeat must be sent when
    the consumer closes.
    """

    NONE = "none"
    """Nothing: no heartbeat was sent yet, or we have left, or the coordinator does not know us."""

    MEMBER = "member"
    """A member, or perhaps one: a heartbeat was sent, by this actor or by the one that was
    restarted.

    It has to leave, otherwise the group keeps partitions for it until its session ends.
    """

    AWAITED = "awaited"
    """A static member that has left with epoch -2. Its partitions are kept for it until its session
    ends."""


class RegistrationEvent(enum.Enum):
    """What leads from one status to the next."""

    SENT = "a heartbeat is sent"
    LEFT = "the group was told that the member leaves for good, or could not be told in time"
    LEFT_FOR_NOW = "the same, but the member is static and leaves with epoch -2"
    ENDED = "the membership is over, and nothing is left to tell the group"
    OUTLIVED = "the membership is over for us, but the group may have the member still"


_S, _E = RegistrationStatus, RegistrationEvent

#: The whole machine. An application that polls too late makes the member leave, perhaps before its
#: first heartbeat was sent: so a leave heartbeat may be sent in any status.
TRANSITIONS: Final[Mapping[RegistrationStatus, Mapping[RegistrationEvent, RegistrationStatus]]] = {
    _S.NONE: {_E.SENT: _S.MEMBER, _E.LEFT: _S.NONE, _E.LEFT_FOR_NOW: _S.AWAITED},
    _S.MEMBER: {
        _E.SENT: _S.MEMBER,
        _E.LEFT: _S.NONE,
        _E.LEFT_FOR_NOW: _S.AWAITED,
        _E.ENDED: _S.NONE,
        _E.OUTLIVED: _S.MEMBER,
    },
    _S.AWAITED: {_E.SENT: _S.MEMBER, _E.LEFT: _S.NONE, _E.LEFT_FOR_NOW: _S.AWAITED},
}


class Registration:
    """Owns the status, the fields that the coordinator was told, who has our `group_instance_id`,
    and whether the application was told that it is not authorized.

    `has_predecessor`: this actor was restarted, and its former incarnation may have joined.
    """

    def __init__(self, settings: Settings, *, has_predecessor: bool) -> None:
        status = RegistrationStatus
        self.status = status.MEMBER if has_predecessor else status.NONE
        self._fields = SentFields(settings, has_predecessor=has_predecessor)
        #: Who has our `group_instance_id`, as the coordinator explained it.
        self.taken_because = ""
        self._is_forbidden = False

    @property
    def is_member(self) -> bool:
        """Whether the group has, or may have, a member under our id."""
        return self.status is RegistrationStatus.MEMBER

    def heartbeat(self, report: Report) -> Any:
        """A heartbeat, which is sent now: from here on the group may have us."""
        self._on(RegistrationEvent.SENT)
        return self._fields.heartbeat(report)

    def is_subscribed(self, report: Report) -> bool:
        """Whether the coordinator was told this subscription."""
        return self._fields.is_subscribed(report)

    def forget_fields(self) -> None:
        """We do not know what the coordinator has read: the next heartbeat has all fields."""
        self._fields.forget()

    def answered(self) -> None:
        """A heartbeat was answered without an error."""
        self._is_forbidden = False

    def forbidden(self) -> bool:
        """The coordinator refused a heartbeat, because we are not authorized; an operator may mend
        that. False if the previous heartbeat had the same error: the application was told then."""
        is_new, self._is_forbidden = not self._is_forbidden, True
        return is_new

    def may_be_allowed(self) -> None:
        """The subscription changed. If the coordinator refuses the new one as well, the application
        is told again."""
        self._is_forbidden = False

    def taken(self, because: str) -> None:
        """The group has another member of our `group_instance_id`."""
        self.taken_because = because

    def left(self, *, stays: bool) -> None:
        """The group was told that the member leaves, or could not be told in time."""
        self._on(RegistrationEvent.LEFT_FOR_NOW if stays else RegistrationEvent.LEFT)

    def ended(self, *, is_member: bool) -> None:
        """The membership is over for us; `is_member`: the group may have the member still."""
        self._on(RegistrationEvent.OUTLIVED if is_member else RegistrationEvent.ENDED)

    def _on(self, event: RegistrationEvent) -> None:
        self.status = follow(TRANSITIONS, self.status, event)
