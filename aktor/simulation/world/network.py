"""The network between members and brokers: a `wire.Net` below the real network actor.

Frames cross it as bytes, in order within a connection, each after a latency of its own; what is
between two connections may overtake. A link can be slow, tear frames to pieces, or be cut, both
ways or one: then what is under way waits, as TCP does, until it is mended or somebody gives up. A
client that closes a connection on which answers are due resets it: what has not arrived is
discarded. After an orderly close all arrives, however late the link is mended. A broker whose
machine is gone leaves half-open connections: what is sent there vanishes until its next process
answers with a reset; so does, for good, what is sent on a connection that a firewall between them
has forgotten. At the broker's end a `broker.connection.Connection` takes the bytes, as it does
behind sockets.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, assert_never

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
from aktor.actors.sockets.frames import SCRATCH_SIZE
from aktor.actors.sockets.handshake import mechanism_of
from aktor.broker.call import Call
from aktor.broker.codes import Code
from aktor.broker.connection import Connection, Wire
from aktor.broker.faults import Action, FailPartly, FailWith, Fault
from aktor.broker.sasl import Authentication
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
from aktor.simulation.history import History
from aktor.simulation.world.cluster import Brokers
from aktor.simulation.world.names import Names, Tasks
from aktor.simulation.world.scheduler import Scheduler

__all__ = ["NOWHERE", "BrokersEnd", "Direction", "Network", "OneWay", "SimulatedNet"]

#: Seconds that a frame is under way.
FASTEST: Final = 0.0002
SLOWEST: Final = 0.003

#: A lost packet is sent again after so long.
RESEND: Final = 0.2

#: The pieces of a torn frame are up to so long apart.
APART: Final = 1.0

#: Questions about where things are, which brokers learn of one by one.
_KNOWLEDGE: Final = frozenset({"Metadata", "FindCoordinator"})

VERSIONS: Final = BrokerVersionData(
    api_versions={api.key: (api.min_version, api.max_version) for api in APIS.values()}
)

#: A host that drops all packets.
NOWHERE: Final = "nowhere"

#: From whom to whom: a member's name and a broker's id, or the other way round.
Direction = tuple[str | int, str | int]


def refusal(code: Code) -> Action:
    """How a broker says this: of the last partition only, where it depends on the partition."""
    return FailPartly(code) if code is Code.UNSTABLE_OFFSET_COMMIT else FailWith(code)


class BrokersEnd(Wire, Protocol):
    """What carries a broker's answers to a client."""

    #: Its machine is gone: nobody is told that the connection is closed.
    mute: bool


class Network:
    """Owns the state of all links, and what is under way. It is what the brokers' ends of all
    connections share, their `Exchange`."""

    def __init__(self, scheduler: Scheduler, brokers: Brokers, history: History, seed: int) -> None:
        self.scheduler = scheduler
        self.brokers = brokers
        self.history = history
        self.random = random.Random(f"{seed} network")
        self.numbers = itertools.count(1)
        #: What is done to requests: see `broker.faults`.
        self.faults = brokers.faults
        self.log_in: Callable[[], Authentication] | None = None
        #: Whether consumers begin connections as on real ones: ApiVersions, and a login if their
        #: settings ask for one. Else they know what brokers speak.
        self.with_handshakes = False
        self.names = Names()
        #: Directions in which nothing passes.
        self.cut: set[Direction] = set()
        #: Chance that a frame is lost and sent again.
        self.loss = 0.0
        #: Chance that a frame comes in pieces.
        self.tearing = 0.0
        #: Seconds that every frame takes longer.
        self.slower = 0.0
        #: Brokers that have moved, and the host that each is now.
        self.moved: dict[int, str] = {}
        #: What brokers whose knowledge stands still have said: by the question, in words.
        self.outdated: dict[int, dict[str, Any]] = {}
        self.scratch = bytearray(SCRATCH_SIZE)
        #: The brokers' ends of connections.
        self._ends: dict[Connection, BrokersEnd] = {}
        self._ready: dict[Connection, None] = {}
        #: What waits at brokers that do nothing at the moment.
        self._silent: dict[int, list[Callable[[], None]]] = {}
        #: What was held back on a link arrives then; nothing sent later may overtake it.
        self._not_before: dict[Direction, float] = {}
        self._held: list[tuple[Direction, Callable[[], None]]] = []
        brokers.on_end.append(self._broker_ended)

    # -- what goes wrong

    def cut_link(self, member: str, node: int) -> None:
        """Nothing passes between these two."""
        self.cut |= {(member, node), (node, member)}

    def cut_way(self, direction: Direction) -> None:
        """Nothing passes from the one to the other; the way back is well."""
        self.cut.add(direction)

    def mend_link(self, member: str, node: int) -> None:
        """This link is well, both ways."""
        both = (member, node), (node, member)
        self.cut.difference_update(both)
        self._release(lambda direction: direction in both)

    def mend(self) -> None:
        """All links are well; what was held back goes on."""
        self.cut.clear()
        self.faults.clear()
        self.outdated.clear()
        self.loss = self.slower = self.tearing = 0.0
        for node in list(self._silent):
            self.speak(node)
        self._release(lambda _: True)

    def silence(self, node: int) -> None:
        """From now on this broker looks at no request and sends no answer; connections stay."""
        self._silent.setdefault(node, [])

    def speak(self, node: int) -> None:
        """The broker handles requests again, first those that came while it was silent."""
        for act in self._silent.pop(node, []):
            act()

    def move_broker(self, node: int) -> None:
        """From now on it has another address, and advertises that; nothing answers at the old one.
        The connections that it has go on, if it runs."""
        name, _, times = self.address(node).partition("-")
        self.moved[node] = host = f"{name}-{int(times or 0) + 1}"
        self.brokers.model.nodes[node].host = host
        self.history.note("broker.moved", broker=node, host=host)

    def address(self, node: int) -> str:
        """The host that this broker is."""
        return self.moved.get(node, f"b{node}")

    def leads_nowhere(self, host: str) -> bool:
        """Whether all packets to this host are dropped: it is nobody's, or was a broker's."""
        node = self._named(host)
        return host == NOWHERE or (node is not None and host != self.address(node))

    def disturb(self, *faults: Fault) -> Callable[[], None]:
        """Do this to the requests that fit; what is returned takes back what is left of it."""
        numbers = [self.faults.add(fault) for fault in faults]

        def take_back() -> None:
            for number in numbers:
                self.faults.remove(number)

        return take_back

    def refuse(self, api: str, codes: Sequence[Code]) -> Callable[[], None]:
        """The next requests of this API are answered by these errors."""
        return self.disturb(*(Fault(action=refusal(code), api=api) for code in codes))

    # -- links

    def latency(self) -> float:
        """How long the next frame is under way."""
        lost = 0.0
        while self.loss and self.random.random() < self.loss:
            lost += RESEND
        return self.random.uniform(FASTEST, SLOWEST) + self.slower + lost

    def arrival(self, direction: Direction) -> float:
        """When what is sent now will be there, but for what is in front of it."""
        return max(self.scheduler.now + self.latency(), self._not_before.get(direction, 0.0))

    def carry(self, direction: Direction, act: Callable[[], None]) -> None:
        """Call `act` now, or when the link is well again and what waited for that has passed."""
        if direction in self.cut:
            self._held.append((direction, act))
        elif self.scheduler.now < (when := self._not_before.get(direction, 0.0)):
            self.scheduler.at(when, lambda: self.carry(direction, act))
        else:
            act()

    def _release(self, well: Callable[[Direction], bool]) -> None:
        """Let go what was held back on these links, in the order it was sent."""
        going = [act for direction, act in self._held if well(direction)]
        when = self.scheduler.now + self.latency()
        for direction in {direction for direction, _ in self._held if well(direction)}:
            self._not_before[direction] = when
        self._held = [entry for entry in self._held if not well(entry[0])]
        for act in going:
            self.scheduler.at(when, act)

    def pieces(self, frame: bytes) -> Sequence[tuple[float, bytes]]:
        """The frame, as it is carried: whole, or torn; and how much later each piece comes."""
        if not self.tearing or self.random.random() >= self.tearing or len(frame) < 2:
            return ((0.0, frame),)
        place = self.random.randrange(1, len(frame))
        return (0.0, frame[:place]), (self.random.uniform(0.0, APART), frame[place:])

    def broker(self, host: str) -> int:
        """Broker n is the host "b<n>", "b<n>-1" once it has moved. Any other name stands for all of
        them, as of a load balancer: so code with addresses of its own runs as it is."""
        return self._named(host) or min(self.brokers.running or self.brokers.model.nodes)

    def _named(self, host: str) -> int | None:
        """Whose host this is, or was."""
        name = host.partition("-")[0]
        return next((node for node in self.brokers.model.nodes if name == f"b{node}"), None)

    # -- the brokers' ends of connections

    @property
    def accepted(self) -> int:
        """How many connections brokers have, half-open ones among them."""
        return len(self._ends)

    def accept(self, node: int, host: str, end: BrokersEnd) -> Connection:
        """A broker takes a connection."""
        connection = Connection(self, end, number=next(self.numbers), node=node, host=host)
        self._ends[connection] = end
        return connection

    def _broker_ended(self, node: int, silent: bool) -> None:
        for connection, end in list(self._ends.items()):
            if connection.node == node:
                end.mute = silent
                connection.close()

    def now(self) -> float:
        """By the scheduler's clock."""
        return self.scheduler.now

    def after(self, delay: float, act: Callable[[], None]) -> None:
        """Call `act` when so many seconds have passed."""
        self.scheduler.after(delay, act)

    def at_broker(self, node: int, act: Callable[[], None]) -> None:
        """Call `act` now, or when the broker does something again."""
        if node in self._silent:
            self._silent[node].append(act)
        else:
            act()

    def receive(self, call: Call, api: str) -> None:
        """Hand a request to the brokers' model; a broker whose knowledge stands still says again
        what it said before."""
        said = self.outdated.get(call.node) if api in _KNOWLEDGE else None
        if said is not None:
            question = repr(call.request)
            if question in said:
                call.reply(copy.deepcopy(said[question]))
                return
            call = _remembering(call, said, question)
        self.brokers.receive(call, api)

    def can_go_on(self, connection: Connection) -> None:
        """Let the broker's end of the connection go on, at its next turn."""
        if connection not in self._ready:
            self._ready[connection] = None
            self.scheduler.after(0.0, lambda: self._go_on(connection))

    def _go_on(self, connection: Connection) -> None:
        del self._ready[connection]
        self.at_broker(connection.node, connection.go_on)

    def ended(self, connection: Connection) -> None:
        """The connection has ended: forget it and its requests."""
        del self._ends[connection]
        self.brokers.model.forget(lambda call: call.connection == connection.number)

    def hindered(self, connection: Connection, api: str, fault: Action) -> None:
        """Note in the history that a fault hit a request."""
        self.history.note(
            "request.hindered",
            connection.host,
            api=api,
            broker=connection.node,
            how=type(fault).__name__,
            code=fault.code.name if isinstance(fault, FailWith | FailPartly) else None,
        )


def _remembering(call: Call, said: dict[str, Any], question: str) -> Call:
    """The same call; its answer is kept."""

    def answer(response: Any) -> None:
        said[question] = copy.deepcopy(response)  # which is made ready for this call
        call.reply(response)

    return Call(
        call.request,
        answer=answer,
        version=call.version,
        now=call.now,
        node=call.node,
        client_id=call.client_id,
        client_host=call.client_host,
        principal=call.principal,
        connection=call.connection,
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


class OneWay:
    """One direction of a connection: what is sent arrives in order."""

    __slots__ = ("_busy_until", "_direction", "_line", "_network", "dead")

    def __init__(self, network: Network, direction: Direction) -> None:
        self._network = network
        self._direction = direction
        #: Nothing arrives any more, and nobody is told.
        self.dead = False
        self._busy_until = 0.0
        self._line: deque[Callable[[], None]] = deque()

    def send(self, act: Callable[[], None], delay: float = 0.0) -> None:
        """Call `act` at the other end: after the latency, and not before what was sent earlier."""
        network = self._network
        self._busy_until = when = max(network.arrival(self._direction) + delay, self._busy_until)
        # What was held back while the link was cut comes first, whenever it is let go.
        self._line.append(act)
        network.scheduler.at(when, self._arrive)

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes at the moment."""
        return self._direction in self._network.cut

    def discard(self) -> None:
        """What has not arrived never will."""
        self._line = deque([_nothing] * len(self._line))

    def _arrive(self) -> None:
        self._network.carry(self._direction, self._next)

    def _next(self) -> None:
        act = self._line.popleft()
        if not self.dead:
            act()


def _nothing() -> None:
    """In the place of what was discarded."""
