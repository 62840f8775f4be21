"""The network between members and brokers: a `wire.Net` below the real network actor.

Frames cross it as bytes, in order within a connection, each after a latency of its own; what is
between two connections may overtake. A link can be slow, or cut: then what is under way waits, as
TCP does, until it is mended or somebody gives up. A broker whose machine is gone leaves half-open
connections: what is sent there vanishes until its next process answers with a reset.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from kafka.errors import IncompatibleBrokerVersion, KafkaConnectionError
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.actors.due import Due, write_request
from aktor.actors.wire import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.broker.call import CLOSE, Call
from aktor.broker.codes import Code
from aktor.broker.faults import error_response
from aktor.broker.wire import APIS, read_request, write_response
from aktor.simulation.cluster import Brokers
from aktor.simulation.history import History
from aktor.simulation.scheduler import Scheduler

__all__ = ["Network", "SimulatedNet"]

#: Seconds that a frame is under way.
FASTEST: Final = 0.0002
SLOWEST: Final = 0.003

#: A lost packet is sent again after so long.
RESEND: Final = 0.2

VERSIONS: Final = BrokerVersionData(
    api_versions={api.key: (api.min_version, api.max_version) for api in APIS.values()}
)


class Network:
    """Owns the state of all links, and what is under way."""

    def __init__(self, scheduler: Scheduler, brokers: Brokers, history: History, seed: int) -> None:
        self.scheduler = scheduler
        self.brokers = brokers
        self.history = history
        self.random = random.Random(f"{seed} network")
        self.numbers = itertools.count(1)
        #: Pairs (member, broker) that cannot reach each other.
        self.cut: set[tuple[str, int]] = set()
        #: Chance that a frame is lost and sent again.
        self.loss = 0.0
        #: Seconds that every frame takes longer.
        self.slower = 0.0
        #: What the next requests of an API are answered, by the API's name.
        self.refusals: dict[str, list[Code]] = {}
        #: How many of the next answers to an API are lost, with the connection, by its name.
        self.losses: dict[str, int] = {}
        #: What waits at brokers that do nothing at the moment.
        self._silent: dict[int, list[Callable[[], object]]] = {}
        #: What was held back on a link arrives then; nothing sent later may overtake it.
        self._not_before: dict[tuple[str, int], float] = {}
        self._held: list[tuple[tuple[str, int], Callable[[], object]]] = []

    def latency(self) -> float:
        """How long the next frame is under way."""
        lost = 0.0
        while self.loss and self.random.random() < self.loss:
            lost += RESEND
        return self.random.uniform(FASTEST, SLOWEST) + self.slower + lost

    def cut_link(self, member: str, node: int) -> None:
        """Nothing passes between these two."""
        self.cut.add((member, node))

    def mend(self) -> None:
        """All links are well; what was held back goes on."""
        self.cut.clear()
        self.refusals.clear()
        self.losses.clear()
        self.loss = self.slower = 0.0
        for node in list(self._silent):
            self.speak(node)
        self._release(lambda link: True)

    def mend_link(self, member: str, node: int) -> None:
        """This link is well."""
        self.cut.discard((member, node))
        self._release(lambda link: link == (member, node))

    def silence(self, node: int) -> None:
        """From now on this broker looks at no request and sends no answer; connections stay."""
        self._silent.setdefault(node, [])

    def speak(self, node: int) -> None:
        """It goes on with what has come meanwhile."""
        for act in self._silent.pop(node, []):
            act()

    def at_broker(self, node: int, act: Callable[[], object]) -> None:
        """Call `act` now, or when the broker does something again."""
        if node in self._silent:
            self._silent[node].append(act)
        else:
            act()

    def loses(self, api: str) -> bool:
        """Whether this answer is one of those that are lost."""
        left = self.losses.get(api, 0)
        if left:
            self.losses[api] = left - 1
        return left > 0

    def _release(self, well: Callable[[tuple[str, int]], bool]) -> None:
        """Let go what was held back on these links, in the order it was sent."""
        going = [act for link, act in self._held if well(link)]
        when = self.scheduler.now + self.latency()
        for link in {link for link, _ in self._held if well(link)}:
            self._not_before[link] = when
        self._held = [one for one in self._held if not well(one[0])]
        for act in going:
            self.scheduler.at(when, act)

    def arrival(self, link: tuple[str, int]) -> float:
        """When what is sent now will be there, but for what is in front of it."""
        return max(self.scheduler.now + self.latency(), self._not_before.get(link, 0.0))

    def carry(self, link: tuple[str, int], act: Callable[[], object]) -> None:
        """Call `act` now, or when the link is well again and what waited for that has passed."""
        if link in self.cut:
            self._held.append((link, act))
        elif self.scheduler.now < (when := self._not_before.get(link, 0.0)):
            self.scheduler.at(when, lambda: self.carry(link, act))
        else:
            act()


class SimulatedNet:
    """Owns the connections of one consumer; it and its member are as the history names them."""

    def __init__(
        self,
        network: Network,
        member: str,
        tell: Callable[[object], None],
        *,
        consumer: str,
        client_id: str,
    ) -> None:
        self._network = network
        self._member = member
        self._consumer = consumer
        self._client_id = client_id
        self._tell = tell
        self._connections: dict[str, _Connection] = {}
        self.frozen = False
        self._missed: list[Callable[[], object]] = []
        network.brokers.on_end.append(self._broker_ended)

    # -- what the network actor calls

    def connect(
        self, key: str, host: str, port: int, timeout: float, *, canonical: bool = False
    ) -> None:
        """As `kafka.net` would; see `_broker` for the names of hosts."""
        network = self._network
        connection = _Connection(key, self._broker(host), next(network.numbers))
        self._connections[key] = connection
        link = (self._member, connection.node)
        scheduler = network.scheduler
        scheduler.after(
            network.latency(), lambda: network.carry(link, lambda: self._reached(connection))
        )
        scheduler.after(timeout, lambda: self._give_up(connection, timeout))

    def _broker(self, host: str) -> int:
        """Broker n is the host "b<n>". Any other name stands for all of them, as of a load
        balancer: so code with addresses of its own runs as it is."""
        brokers = self._network.brokers
        named = {node.host: number for number, node in brokers.model.nodes.items()}
        return named.get(host) or min(brokers.running or named.values())

    def _reached(self, connection: _Connection) -> None:
        brokers = self._network.brokers
        if connection.node in brokers.running:
            connection.life = brokers.life(connection.node)
            self._later(connection, lambda: self._opened(connection))
        elif not connection.gone:
            error = KafkaConnectionError(f"broker b{connection.node}: connection refused")
            self._later(connection, lambda: self._failed(connection, error))

    def _opened(self, connection: _Connection) -> None:
        connection.open = True
        self._tell(ConnectionOpened(key=connection.key))

    def _give_up(self, connection: _Connection, timeout: float) -> None:
        if not connection.open and not connection.gone:
            error = KafkaConnectionError(
                f"broker b{connection.node}: no answer within {timeout:g} s"
            )
            error.__cause__ = TimeoutError()
            self._hear(lambda: self._failed(connection, error))

    def _failed(self, connection: _Connection, error: Exception) -> None:
        if self._forget(connection):
            self._tell(ConnectionFailed(key=connection.key, error=error))

    def send(self, key: str, request_id: int, body: Any) -> None:
        """To the broker's end of the connection."""
        connection = self._connections.get(key)
        if connection is None:
            error = KafkaConnectionError(f"connection {key} is closed")
            self._tell(RequestBroken(key=key, request_id=request_id, error=error))
            return
        connection.count += 1
        try:
            frame, due = write_request(body, VERSIONS, connection.count, self._client_id)
        except IncompatibleBrokerVersion as old:
            self._tell(RequestBroken(key=key, request_id=request_id, error=old))
            return
        due.request_id = request_id
        connection.due.append(due)
        at_broker = self._network.at_broker
        self._in_order(
            connection,
            lambda: at_broker(connection.node, lambda: self._arrived(connection, frame)),
        )

    @property
    def connected(self) -> bool:
        """Whether there is any connection."""
        return bool(self._connections)

    def has_heard(self, key: str) -> bool:
        """Answers arrive whole here."""
        return False

    def close_connection(self, key: str, because: str) -> None:
        """No more reports about it."""
        connection = self._connections.pop(key, None)
        if connection is not None:
            connection.gone = True
            self._later_at_broker(connection)

    def close(self) -> None:
        """Close everything; no more reports."""
        for key in list(self._connections):
            self.close_connection(key, "the end")
        if self._broker_ended in self._network.brokers.on_end:
            self._network.brokers.on_end.remove(self._broker_ended)

    def wait(self, timeout: float) -> None:
        """The scheduler does the waiting."""

    def wake(self) -> None:
        """The scheduler is awake."""

    # -- what happens to the member's process

    def freeze(self) -> None:
        """It stands still: what arrives waits in the sockets."""
        self.frozen = True

    def thaw(self) -> None:
        """It goes on."""
        self.frozen = False
        missed, self._missed = self._missed, []
        for act in missed:
            act()

    def _hear(self, act: Callable[[], object]) -> None:
        if self.frozen:
            self._missed.append(act)
        else:
            act()

    def break_all(self, node: int | None = None) -> None:
        """Connections (to this broker, or all) are reset."""
        for one in list(self._connections.values()):
            if node is None or one.node == node:
                self._hear(lambda one=one: self._reset(one, "reset the connection"))  # type: ignore[misc]

    # -- the connection's end

    def _broker_ended(self, node: int, silent: bool) -> None:
        for one in list(self._connections.values()):
            if one.node == node and not silent:
                self._later(one, lambda one=one: self._reset(one, "closed the connection"))  # type: ignore[misc]

    def _reset(self, connection: _Connection, what: str) -> None:
        error = KafkaConnectionError(f"broker b{connection.node} {what}")
        opened = connection.open
        if not self._forget(connection):
            return
        kind = ConnectionClosed if opened else ConnectionFailed
        self._tell(kind(key=connection.key, error=error))

    def _forget(self, connection: _Connection) -> bool:
        if self._connections.get(connection.key) is not connection:
            return False
        del self._connections[connection.key]
        connection.gone = True
        self._later_at_broker(connection)
        return True

    def _later_at_broker(self, connection: _Connection) -> None:
        """The broker's end hears of the close, and forgets who waits there."""
        model = self._network.brokers.model
        number = connection.number
        self._network.scheduler.after(
            self._network.latency(), lambda: model.forget(lambda call: call.connection == number)
        )

    # -- the broker's end

    def _arrived(self, connection: _Connection, frame: bytes) -> None:
        brokers = self._network.brokers
        if connection.node not in brokers.running:
            return  # a half-open connection
        if brokers.life(connection.node) != connection.life:
            self._later(connection, lambda: self._reset(connection, "knows no such connection"))
            return
        connection.queue.append(frame)
        self._serve(connection)

    def _serve(self, connection: _Connection) -> None:
        """One request after the other: the next is looked at when this one is answered."""
        if connection.busy or not connection.queue or connection.gone:
            return
        connection.busy = True
        incoming = read_request(memoryview(connection.queue.popleft())[4:])
        network = self._network

        def answer(response: Any) -> None:
            if network.loses(incoming.api.name):
                # It stays busy: what came behind is lost as well.
                network.history.note("answer.lost", self._member, api=incoming.api.name)
                self._later(connection, lambda: self._reset(connection, "reset the connection"))
                return
            connection.busy = False
            if connection.life != network.brokers.life(connection.node):
                return  # that process is gone
            if response is CLOSE:
                self._later(connection, lambda: self._reset(connection, "closed the connection"))
                return
            if response is not None:
                frame = write_response(
                    incoming.api, incoming.version, incoming.correlation_id, response
                )
                self._in_order(
                    connection, lambda: self._hear(lambda: self._answer(connection, frame))
                )
            if connection.queue:
                network.scheduler.after(0.0, lambda: self._serve(connection))

        refusals = network.refusals.get(incoming.api.name)
        code = refusals.pop() if refusals else None
        if code is not None and code is not Code.UNSTABLE_OFFSET_COMMIT:
            answer(error_response(incoming.request, incoming.version, code))
            return
        network.brokers.receive(
            Call(
                incoming.request,
                answer=lambda said: network.at_broker(
                    connection.node,
                    lambda: answer(said if code is None else _one_unstable(said)),
                ),
                version=incoming.version,
                now=network.scheduler.now,
                node=connection.node,
                client_id=incoming.client_id,
                client_host=f"/{self._consumer}",
                connection=connection.number,
            ),
            incoming.api.name,
        )

    def _answer(self, connection: _Connection, frame: bytes) -> None:
        if self._connections.get(connection.key) is not connection:
            return
        due = connection.due.popleft()
        response = due.decode(memoryview(frame)[4:])
        assert due.request_id is not None, "the simulated net asks nothing for itself"
        self._tell(
            RequestAnswered(
                key=connection.key,
                request_id=due.request_id,
                response=response,
                version=due.version,
            )
        )

    # -- on the way

    def _later(self, connection: _Connection, act: Callable[[], object]) -> None:
        network = self._network
        link = (self._member, connection.node)
        network.scheduler.at(
            network.arrival(link), lambda: network.carry(link, lambda: self._hear(act))
        )

    def _in_order(self, connection: _Connection, act: Callable[[], object]) -> None:
        """After the latency, and not before what was sent on this connection earlier."""
        network = self._network
        link = (self._member, connection.node)
        when = max(network.arrival(link), connection.busy_until)
        connection.busy_until = when
        # What was held back while the link was cut comes first, whenever it is let go.
        connection.line.append(act)
        network.scheduler.at(when, lambda: network.carry(link, lambda: connection.line.popleft()()))


class _Connection:
    """One connection, both ends of it."""

    def __init__(self, key: str, node: int, number: int) -> None:
        self.key = key
        self.node = node
        self.number = number
        self.life = 0
        self.open = False
        self.gone = False
        self.busy = False
        self.busy_until = 0.0
        self.count = 0
        self.queue: deque[bytes] = deque()
        self.line: deque[Callable[[], object]] = deque()
        self.due: deque[Due] = deque()


def _one_unstable(response: Any) -> Any:
    """An answer to OffsetFetch, but a transaction is about to commit an offset of one partition."""
    topics = [one for group in response.groups or () for one in group.topics or ()]
    partitions = [one for topic in topics for one in topic.partitions or ()]
    for one in partitions[-1:]:
        one.error_code = int(Code.UNSTABLE_OFFSET_COMMIT)
        one.committed_offset = -1
    return response
