"""The connections of one consumer over the simulated network: a `wire.Net` below the real network
actor.

What is said on a connection is `conversation`, as over real sockets; the bytes are carried by the
network, both ways. At the broker's end a `broker.connection.Connection` takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, assert_never

from kafka.errors import KafkaConnectionError
from kafka.future import Future
from kafka.protocol.broker_version_data import BrokerVersionData

from aktor.actors.sockets.addresses import Address, AddressBook, Race, head_start
from aktor.actors.sockets.asked_versions import AskedVersions
from aktor.actors.sockets.conversation import (
    Broken,
    Conversation,
    News,
    Opened,
    RenewAfter,
    ResponseRead,
    Work,
)
from aktor.actors.sockets.diagnosis import Diagnosis
from aktor.actors.sockets.handshake import mechanism_of
from aktor.broker.connection import Connection
from aktor.broker.wire import APIS
from aktor.events.message import Message
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.settings import Settings
from aktor.simulation.world.names import Tasks
from aktor.simulation.world.network import Network, OneWay

__all__ = ["VERSIONS", "SimulatedNet"]

#: What brokers speak, for consumers that do not ask.
VERSIONS: Final = BrokerVersionData(
    api_versions={api.key: (api.min_version, api.max_version) for api in APIS.values()}
)


class SimulatedNet:
    """Owns the connections of one consumer; it and its member are as the history names them."""

    def __init__(
        self,
        network: Network,
        member: str,
        tell: Callable[[Message], None],
        *,
        consumer: str,
        settings: Settings,
        clock: Callable[[], float],
    ) -> None:
        self.network = network
        self._clock = clock
        self._member = member
        self._consumer = consumer
        self._settings = settings
        self._tell = tell
        self._connections: dict[str, _Connection] = {}
        self._addresses = AddressBook()
        self._asked_versions = AskedVersions()
        self.frozen = False
        self._missed: list[Callable[[], None]] = []

    # -- what the network actor calls

    def connect(
        self,
        key: str,
        host: str,
        port: int,
        timeout: float,
        *,
        canonical: bool = False,
        jitter: float = 0.5,
    ) -> None:
        """As `kafka.net` would; see `Network.broker` for the names of hosts."""
        network, node = self.network, self.network.broker(host)
        addresses = self._addresses.ordered(host, port, network.names.resolve(host, port))
        connection = _Connection(
            key,
            node,
            self._settings,
            name=(host, port),
            race=Race(
                Tasks(network.scheduler, self._hear),
                addresses,
                lambda address: self._try(connection, address),
                head_start=head_start(len(addresses), timeout),
            ),
            there=OneWay(network, (self._member, node)),
            back=OneWay(network, (node, self._member)),
            scratch=network.scratch,
            jitter=jitter,
        )
        self._connections[key] = connection
        _run(self._reach(connection), lambda error: self._failed(connection, error))
        network.scheduler.after(timeout, lambda: self._give_up(connection, timeout))

    async def _reach(self, connection: _Connection) -> None:
        """Connect to the broker by one of its addresses."""
        try:
            connection.address, _ = await connection.race.winner()
        except OSError as error:
            raise KafkaConnectionError(f"broker b{connection.node}: {error}") from error
        self._reached_it(connection)

    async def _try(self, connection: _Connection, address: Address) -> None:
        """Whether an address leads to the broker's machine."""
        network, reached = self.network, Future()
        dead = network.names.is_dead(connection.node, address)
        if not dead and not network.leads_nowhere(connection.name[0]):
            connection.there.send(lambda: self._reached(connection, reached))
        await reached

    def _reached(self, connection: _Connection, reached: Future) -> None:
        """The broker's machine takes the connection, or refuses it."""
        network, node = self.network, connection.node
        if node not in network.brokers.running:
            refused = ConnectionRefusedError("connection refused")
            self.later(connection, lambda: reached.failure(refused))
            return
        if connection.end is None:  # else it was taken by another address
            connection.end = network.accept(node, self._consumer, _BrokersEnd(self, connection))
        self.later(connection, lambda: reached.success(None))

    def _reached_it(self, connection: _Connection) -> None:
        """Here it is known that the broker's machine has taken the connection."""
        if self._connections.get(connection.key) is not connection:
            return
        if self.network.with_handshakes:
            api_versions = self._asked_versions.of(*connection.name)
            self._say(connection, lambda talk: talk.begin(f"b{connection.node}", api_versions))
        else:
            self._say(connection, lambda talk: talk.begin_with(VERSIONS))

    # -- the conversation: see `conversation`, which is that of real sockets

    def _say(self, connection: _Connection, say: Callable[[Conversation], None]) -> None:
        """Let the conversation say or hear something, and do what it wants next."""
        failure = None
        try:
            say(connection.talk)
        except Exception as error:
            failure = connection.diagnosis.explain(error)
        self._go_on(connection)
        if failure is not None:
            self._broken(connection, failure)

    def _go_on(self, connection: _Connection) -> None:
        talk = connection.talk
        while talk.unsent:
            self._carry(connection, bytes(talk.unsent.popleft()))
        while talk.news and self._connections.get(connection.key) is connection:
            self._act(connection, talk.news.popleft())

    def _carry(self, connection: _Connection, frame: bytes) -> None:
        for delay, piece in self.network.pieces(frame):
            connection.there.send(lambda piece=piece: self._arrived(connection, piece), delay)  # type: ignore[misc]

    def _act(self, connection: _Connection, news: News) -> None:
        match news:
            case ResponseRead(request_id, response, version, throttle, sizes):
                self._tell(
                    RequestAnswered(
                        key=connection.key,
                        request_id=request_id,
                        response=response,
                        version=version,
                        throttle=throttle,
                        sizes=sizes,
                        now=self._clock(),
                    )
                )
            case Broken(request_id, error):
                self._tell(
                    RequestBroken(
                        key=connection.key, request_id=request_id, error=error, now=self._clock()
                    )
                )
            case Opened():
                self._opened(connection)
            case RenewAfter(seconds):
                self.network.scheduler.after(
                    seconds, lambda: self._hear(lambda: self._renew(connection))
                )
            case Work(work):  # no mechanism that is simulated waits for anything
                self._say(connection, lambda talk: _work(work, talk))
            case _:
                assert_never(news)

    def _renew(self, connection: _Connection) -> None:
        if self._connections.get(connection.key) is connection:
            self._say(connection, lambda talk: talk.renew())

    def _opened(self, connection: _Connection) -> None:
        connection.open = True
        self._note_address(connection, works=True)
        self._tell(ConnectionOpened(key=connection.key, now=self._clock()))

    def _give_up(self, connection: _Connection, timeout: float) -> None:
        if not connection.open:
            error = KafkaConnectionError(
                f"broker b{connection.node}: no answer within {timeout:g} s"
            )
            error.__cause__ = TimeoutError()
            self._hear(lambda: self._failed(connection, error))

    def _failed(self, connection: _Connection, error: Exception) -> None:
        if not connection.open and self._forget(connection):
            self._tell(ConnectionFailed(key=connection.key, error=error, now=self._clock()))

    def send(self, key: str, request_id: int, body: Any) -> None:
        """To the broker's end of the connection."""
        connection = self._connections.get(key)
        if connection is None:
            error = KafkaConnectionError(f"connection {key} is closed")
            self._tell(
                RequestBroken(key=key, request_id=request_id, error=error, now=self._clock())
            )
            return
        self._say(connection, lambda talk: talk.send(request_id, body))

    @property
    def connected(self) -> bool:
        """Whether there is any connection."""
        return bool(self._connections)

    def has_heard(self, key: str) -> bool:
        """Whether part of an answer is here, and some of it came since this was last asked."""
        connection = self._connections.get(key)
        return connection is not None and connection.talk.has_heard()

    def close_connection(self, key: str) -> None:
        """No more reports about it."""
        connection = self._connections.get(key)
        if connection is not None:
            self._forget(connection)

    def close(self) -> None:
        """Close everything, orderly; no more reports."""
        for connection in list(self._connections.values()):
            self._forget(connection, abandon=False)

    def wait(self, timeout: float) -> None:
        """The scheduler does the waiting."""

    def wake(self) -> None:
        """The scheduler is awake."""

    def prepare_to_rest(self) -> None:
        """There is no thread that rests."""

    # -- what happens to the member's process

    def freeze(self) -> None:
        """The process is paused: what arrives waits in the sockets."""
        self.frozen = True

    def thaw(self) -> None:
        """It goes on."""
        self.frozen = False
        missed, self._missed = self._missed, []
        for act in missed:
            act()

    def _hear(self, act: Callable[[], None]) -> None:
        if self.frozen:
            self._missed.append(act)
        else:
            act()

    def break_all(self, node: int | None = None) -> None:
        """Connections (to this broker, or all) are reset."""
        self._reset(lambda connection: node in (None, connection.node))

    def _reset(self, which: Callable[[_Connection], bool]) -> None:
        for connection in list(self._connections.values()):
            if which(connection):
                self._hear(partial(self.lost, connection, "reset the connection"))

    @property
    def keys(self) -> list[str]:
        """The keys of its connections, also of those that are being opened."""
        return list(self._connections)

    @property
    def open_connections(self) -> list[str]:
        """The keys of its connections that are open."""
        return sorted(
            connection.key for connection in self._connections.values() if connection.open
        )

    def swallow(self, key: str) -> None:
        """From now on all that is sent on this connection vanishes, both ways."""
        connection = self._connections[key]
        connection.there.dead = connection.back.dead = True

    def swallow_what_is_dead(self) -> None:
        """From now on all that is sent on connections to a dead address vanishes, both ways."""
        for connection in self._connections.values():
            if self.network.names.is_dead(connection.node, connection.address):
                self.swallow(connection.key)

    def break_swallowed(self, node: int | None = None) -> None:
        """Connections (to this broker, or all) on which everything vanishes or nothing is answered,
        or of which the broker knows nothing (it crashed without a word), are reset."""
        self._reset(lambda connection: connection.is_swallowed and node in (None, connection.node))

    # -- the end of a connection

    def lost(self, connection: _Connection, what: str) -> None:
        """The broker's machine said so."""
        unanswered = connection.diagnosis.unanswered_versions
        if unanswered is not None:
            self._asked_versions.hung_up(*connection.name, unanswered)
        self._broken(connection, KafkaConnectionError(f"broker b{connection.node} {what}"))

    def _broken(self, connection: _Connection, error: Exception) -> None:
        kind = ConnectionClosed if connection.open else ConnectionFailed
        if self._forget(connection):
            self._tell(kind(key=connection.key, error=error, now=self._clock()))

    def _forget(self, connection: _Connection, *, abandon: bool = True) -> bool:
        """Close this side; what was sent arrives before the broker hears of that. `abandon`: if
        answers are due, by a reset: what has not arrived is discarded."""
        if self._connections.get(connection.key) is not connection:
            return False
        del self._connections[connection.key]
        connection.race.end()
        self._note_address(connection, works=False)
        if abandon and connection.talk.in_flight:
            connection.there.discard()
            if connection.there.is_cut:
                return True  # a lost reset is not sent again
        self._tell_end(connection)
        return True

    def _note_address(self, connection: _Connection, *, works: bool) -> None:
        address = connection.address or connection.race.latest
        if address is not None:
            self._addresses.note(*connection.name, address, works=works)

    def _tell_end(self, connection: _Connection) -> None:
        connection.there.send(lambda: self._ended(connection))

    def _ended(self, connection: _Connection) -> None:
        """The broker's end hears that it is closed, if it hears anything."""
        if connection.end is not None:
            self.network.at_broker(connection.node, connection.end.close)

    # -- what arrives

    def _arrived(self, connection: _Connection, data: bytes) -> None:
        """Data of the consumer arrives at the broker."""
        end, node = connection.end, connection.node
        if end is not None and end.open:
            end.take(data)
            self.network.at_broker(node, end.go_on)
        elif node in self.network.brokers.running:
            self.later(connection, lambda: self.lost(connection, "knows no such connection"))

    def arrive(self, connection: _Connection, data: bytes) -> None:
        """Data of the broker arrives at the consumer. Data for a closed connection is answered by a
        reset."""
        if self._connections.get(connection.key) is not connection:
            self._tell_end(connection)
            return
        self._say(connection, lambda talk: talk.take(data))

    def later(self, connection: _Connection, act: Callable[[], None], delay: float = 0.0) -> None:
        """Call `act` at the member when data that the broker sends now, or after `delay`,
        arrives."""
        connection.back.send(lambda: self._hear(act), delay)


def _run(conversation: Coroutine[Future, None, None], fails: Callable[[Exception], None]) -> None:
    """Run the coroutine: go on with it each time the future that it waits for is done."""

    def go_on(_: object) -> None:
        try:
            conversation.send(None).add_callback(go_on)
        except StopIteration:
            pass
        except Exception as error:
            fails(error)

    go_on(None)


def _work(work: Callable[[], Any], talk: Conversation) -> None:
    try:
        result, failure = work(), None
    except Exception as error:
        result, failure = None, error
    talk.worked(result, failure)


class _Connection:
    """One connection, as its member sees it; and the broker's end, once that is there."""

    def __init__(
        self,
        key: str,
        node: int,
        settings: Settings,
        *,
        name: tuple[str, int],
        race: Race[None],
        there: OneWay,
        back: OneWay,
        scratch: bytearray,
        jitter: float,
    ) -> None:
        self.key = key
        self.node = node
        self.diagnosis = Diagnosis(
            f"b{node}",
            security_protocol=settings.security_protocol,
            mechanism=mechanism_of(settings),
            config=settings.connection,
        )
        self.talk = Conversation(settings, self.diagnosis, scratch=scratch, jitter=jitter)
        self.name = name
        self.race = race
        #: By which it has come there.
        self.address: Address | None = None
        self.there = there
        self.back = back
        self.end: Connection | None = None
        self.open = False

    @property
    def is_half_open(self) -> bool:
        """The broker's end is gone, and this one has not heard of it."""
        return self.end is not None and not self.end.open

    @property
    def is_swallowed(self) -> bool:
        """Nothing more is answered, and this end has not heard of it."""
        silent = self.end is not None and self.end.silent
        return silent or self.there.dead or self.is_half_open


class _BrokersEnd:
    """What carries a broker's answers to a consumer (a `BrokersEnd`)."""

    unsent = False

    def __init__(self, net: SimulatedNet, connection: _Connection) -> None:
        self._net = net
        self._connection = connection
        #: Its machine is gone: nobody is told that the connection is closed.
        self.mute = False

    def send(self, frame: bytes) -> None:
        """Send it, maybe in pieces."""
        net, connection = self._net, self._connection
        for delay, piece in net.network.pieces(frame):
            net.later(connection, lambda piece=piece: net.arrive(connection, piece), delay)  # type: ignore[misc]

    def close(self) -> None:
        """Close it."""
        if not self.mute:
            net, connection = self._net, self._connection
            net.later(connection, lambda: net.lost(connection, "closed the connection"))
