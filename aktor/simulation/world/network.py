"""The network between members and brokers.

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
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from aktor.actors.sockets.frames import SCRATCH_SIZE
from aktor.broker.call import Call
from aktor.broker.codes import Code
from aktor.broker.connection import Connection, Wire
from aktor.broker.faults import Action, FailPartly, FailWith, Fault
from aktor.broker.sasl import Authentication
from aktor.simulation.history import History
from aktor.simulation.world.cluster import Brokers
from aktor.simulation.world.names import Names
from aktor.simulation.world.scheduler import Scheduler

__all__ = ["NOWHERE", "BrokersEnd", "Direction", "Network", "OneWay"]

#: Seconds that a frame is under way.
FASTEST: Final = 0.0002
SLOWEST: Final = 0.003

#: A lost packet is sent again after so long.
RESEND: Final = 0.2

#: The pieces of a torn frame are up to so long apart.
APART: Final = 1.0

#: Questions about where things are, which brokers learn of one by one.
_KNOWLEDGE: Final = frozenset({"Metadata", "FindCoordinator"})

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
        #: The directions of connections in which something is under way.
        self.carrying: dict[OneWay, None] = {}
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
        """All links are well; what was held back goes on, and what a slow link carries arrives.

        (What a killed process had sent would arrive after the commits of the one in its place.
        Kafka takes it, if they are no members, and the group would not have finished any more.)
        """
        self.cut.clear()
        self.faults.clear()
        self.outdated.clear()
        self.loss = self.slower = self.tearing = 0.0
        for node in list(self._silent):
            self.speak(node)
        self._release(lambda _: True)
        for line in list(self.carrying):
            line.hurry(self.scheduler.now + SLOWEST)

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

    return call.answered_by(answer)


class OneWay:
    """One direction of a connection: what is sent arrives in order."""

    __slots__ = ("_busy_until", "_direction", "_line", "_network", "_turn", "_under_way", "dead")

    def __init__(self, network: Network, direction: Direction) -> None:
        self._network = network
        self._direction = direction
        #: Nothing arrives any more, and nobody is told.
        self.dead = False
        self._busy_until = 0.0
        #: How many have not arrived. Those that were hurried belong to the turns before this one.
        self._under_way = self._turn = 0
        self._line: deque[Callable[[], None]] = deque()

    def send(self, act: Callable[[], None], delay: float = 0.0) -> None:
        """Call `act` at the other end: after the latency, and not before what was sent earlier."""
        network = self._network
        self._busy_until = when = max(network.arrival(self._direction) + delay, self._busy_until)
        # What was held back while the link was cut comes first, whenever it is let go.
        self._line.append(act)
        self._under_way += 1
        network.carrying[self] = None
        network.scheduler.at(when, partial(self._arrive, self._turn))

    def hurry(self, when: float) -> None:
        """All that is under way arrives at this time, unless it does so before."""
        if self._busy_until > when:
            self._busy_until = when
            self._network.scheduler.at(when, self._arrive_all)

    def _arrive_all(self) -> None:
        self._turn += 1  # they do not come again at the times that they had
        for _ in range(self._under_way):
            self._carry()

    @property
    def is_cut(self) -> bool:
        """Whether nothing passes at the moment."""
        return self._direction in self._network.cut

    def discard(self) -> None:
        """What has not arrived never will."""
        self._line = deque([_nothing] * len(self._line))

    def _arrive(self, turn: int) -> None:
        if turn == self._turn:
            self._carry()

    def _carry(self) -> None:
        self._under_way -= 1
        if not self._under_way:
            del self._network.carrying[self]
        self._network.carry(self._direction, self._next)

    def _next(self) -> None:
        act = self._line.popleft()
        if not self.dead:
            act()


def _nothing() -> None:
    """In the place of what was discarded."""
