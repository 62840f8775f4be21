"""The network conversation: unsent requests in, exactly one answer each out."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from aktor.events.message import Message
from aktor.values import Value


class Destination(enum.Enum):
    """Where a request goes when it is not a node id."""

    ANY = "any"
    """The least loaded node that can be reached."""

    COORDINATOR = "coordinator"
    """The group's coordinator, over connections of its own."""


class Lane(enum.Enum):
    """Which of the connections to a broker. A broker answers the requests of one connection in
    order, so a request that it keeps for long must not be in front of others. See
    `actors/network/lanes`.
    """

    ORDINARY = "ordinary"
    """For requests that are answered at once."""

    FETCH = "fetch"
    """For a Fetch that the broker may keep until there is data."""

    HOLDS = "holds"
    """For a JoinGroup or SyncGroup: the coordinator keeps it until the other members have sent
    theirs. It gets a connection that has nothing else on it."""


class Request(Value):
    """One request that a manager wants sent before `deadline` (absolute, seconds).

    `body` is a kafka-python protocol request; `to` a node id or a `Destination`. `context` is the
    manager's own note and comes back with the answer, as the whole request does, so no manager maps
    a correlation id to a request. An answer for an older `incarnation` is dropped. `lane` says
    which connection to a node it takes. A request to the coordinator waits up to `in_order_for`
    seconds for the answers to those that it must not overtake: the earlier ones to the coordinator,
    which take another connection.
    """

    body: Any
    to: int | Destination
    deadline: float
    sender: str
    incarnation: int
    context: Any = None
    lane: Lane = Lane.ORDINARY
    in_order_for: float = 0.0
    number: int = field(default=0, compare=False)
    """By which the events of the trace name it."""
    cause: int = field(default=0, compare=False)
    """The event of the trace that led to it; 0: none that was told."""


class SendRequests(Message):
    """supervisor ▶ network: send these, in this order per destination."""

    requests: tuple[Request, ...]
    now: float


class ResponseReceived(Message):
    """network ▶ the manager that sent the request: the broker `node` answered `request` with
    `response`.
    """

    request: Request
    response: Any
    node: int
    now: float
    jitter: float


class RequestFailed(Message):
    """network ▶ the manager that sent the request: no answer will come.

    `error` is a `KafkaTimeoutError` (deadline), a `KafkaConnectionError` (could not connect, or
    disconnected; `FrameError` if the answer was malformed), an `AuthenticationError`, or an
    `UnsupportedVersionError` (the broker does not speak a version that the request allows).
    `node` is the node it was sent to or was meant for, None if none was chosen. `was_sent`: the
    broker may have got it, and done what it asks for.
    """

    request: Request
    error: Exception
    node: int | None
    now: float
    jitter: float
    was_sent: bool = True


class Rebootstrap(Message):
    """metadata ▶ network, coordinator: a broker sends the client back to its bootstrap servers
    (REBOOTSTRAP_REQUIRED, KIP-1102): close all connections, and look the coordinator up again.
    """

    because: str


class BrokerRefused(Message):
    """network, metadata ▶ application: a broker refused our credentials, its certificate is bad, or
    it has no version of Metadata that we may use (`api_version`)."""

    error: Exception


class BootstrapFailed(Message):
    """network ▶ application: no bootstrap server could be reached as a Kafka broker."""

    error: Exception


class BrokersUnreachable(Message):
    """network ▶ application: no broker has answered at the address that it advertises."""

    error: Exception


class BrokersReached(Message):
    """network ▶ application: a broker can be reached after all."""


class ExpectFetches(Message):
    """fetch ▶ network: Fetches to these nodes follow shortly; connect meanwhile."""

    nodes: frozenset[int]


class ReportBootstrap(Message):
    """application ▶ network: was any broker reached? Answered with None or a BootstrapError.

    None is also the answer if no connection was begun yet, or if a broker refused us.
    """

    ticket: int


class BrokersLost(Message):
    """network ▶ application: all brokers that are needed and have not been reached for 30 s."""

    brokers: Mapping[int, str]
