"""NetworkActor: which broker a request goes to, over which connection, and how it ended.

Requests come in, exactly one answer each goes out to the sender. The sockets are `KafkaNet`'s; here
are the queues, the deadlines, the backoff, and the way to a first broker (bootstrap).
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Final

from kafka.errors import CoordinatorNotAvailableError, KafkaConnectionError, KafkaTimeoutError

from aktor.actors.network.bootstrap import PAUSE, Bootstrap, BootstrapEvent
from aktor.actors.network.lanes import Lanes
from aktor.actors.network.least_loaded import least_loaded
from aktor.actors.network.links import ClientRequest, Link, LinkEvent, LinkState
from aktor.actors.network.metrics import NetworkMetrics, milliseconds
from aktor.actors.network.moment import Moment
from aktor.actors.network.present import network_now
from aktor.actors.network.unreachable import Complaints
from aktor.actors.runtime.dispatcher import CooperativeActor, Dispatcher
from aktor.actors.runtime.handlers import handles
from aktor.actors.runtime.manager import AGAIN, NEVER, REFUSED_PAUSE, Backoff, stretched
from aktor.actors.sockets.diagnosis import reason_of, without_guess
from aktor.actors.sockets.wire import Net, NetFactory
from aktor.address import written
from aktor.errors import ActorRestartedError, AuthenticationError
from aktor.events.answers import Answered
from aktor.events.coordinator import CoordinatorFound, CoordinatorLost, SuspectCoordinator
from aktor.events.lifecycle import ActorsRestarted, Tick, Ticked
from aktor.events.message import Message
from aktor.events.metadata import Broker, ClusterChanged
from aktor.events.metric import Metric
from aktor.events.network import (
    BrokerRefused,
    BrokersReached,
    Destination,
    ExpectFetches,
    Lane,
    Rebootstrap,
    ReportBootstrap,
    RequestFailed,
    ResponseReceived,
    SendRequests,
)
from aktor.events.routes import NETWORK
from aktor.events.sockets import (
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    RequestAnswered,
    RequestBroken,
)
from aktor.settings import Settings
from aktor.trace import Trace, silent

__all__ = ["NetworkActor"]

#: While the bytes of a late answer keep arriving, it gets this much more time, again and again.
ARRIVING_PATIENCE: Final = 1.0

#: A connection for JoinGroup is closed when it was idle for so long, in seconds. A router on the
#: way may forget an idle connection after minutes. The JoinGroup of the next rebalance would then
#: get no answer for `request_timeout_ms`, while heartbeats, on another connection, are answered.
HOLDING_IDLE: Final = 10.0

#: The longest pause before a connection to the coordinator is tried again, in seconds, whatever
#: `reconnect_backoff_max_ms` says (30 s by default): the member's session runs out meanwhile.
#: Java's default for all connections.
COORDINATOR_PAUSE: Final = 1.0


class NetworkActor(CooperativeActor):
    """Owns connections as decisions: queues, requests in flight, deadlines, backoff.

    Handlers note what happened; `Tick` decides and acts. `net` makes the sockets, given the
    function they report to. There is no clock here and no randomness: the time comes with ticks,
    requests and the sockets' reports, and jitter with ticks.
    """

    name = NETWORK
    #: It needs nobody: its connections stay usable after the restart of any other actor.
    NEEDS: ClassVar[tuple[str, ...]] = ()
    #: The settings that it reads, with those that the sockets read.
    READS: ClassVar[tuple[str, ...]] = (
        "bootstrap_servers",
        "bootstrap_timeout",
        "client_id",
        "connection",
        "connection_setup_timeout",
        "connections_max_idle",
        "group_id",
        "group_protocol",
        "max_in_flight",
        "metrics_num_samples",
        "metrics_sample_window",
        "reconnect_backoff",
        "reconnect_backoff_max",
        "request_timeout",
        "sasl_mechanism",
        "security_protocol",
    )

    def __init__(
        self,
        settings: Settings,
        *,
        net: NetFactory,
        incarnation: int = 1,
        dispatcher: Dispatcher | None = None,
        trace: Trace | None = None,
    ) -> None:
        super().__init__(dispatcher=dispatcher, incarnation=incarnation)
        self.settings = settings
        self.log = (trace or silent()).of_actor(actor=self.name, incarnation=incarnation)
        self._metrics = NetworkMetrics(settings.metrics_num_samples, settings.metrics_sample_window)
        self._moment = Moment()
        #: Of requests, in the order in which they came, and of attempts to connect.
        self._numbers = itertools.count(1)
        self._anywhere: deque[ClientRequest] = deque()
        self._lanes = Lanes(self._new_link)
        servers = [
            self._new_link(f"bootstrap-{i}", -1 - i, host, port, longest_pause=PAUSE)
            for i, (host, port) in enumerate(settings.bootstrap_servers)
        ]
        self._bootstrap = Bootstrap(servers, patience=settings.bootstrap_timeout)
        self._complaints = Complaints(self._bootstrap, self.log)
        #: Something has happened to a link that `present` does not tell yet.
        self._has_news = True
        # A report waits its turn in the inbox like any message.
        self._net = net(super().say)

    def duties(self) -> tuple[Callable[[float], float], ...]:
        """The duties on a tick, in this order. As the duties of a manager, each does what is due
        and returns when it is due next if no message comes before. AGAIN: it closed a connection,
        so that another duty may open it again; a tick closes each connection once at most."""
        return (
            self._give_up_late,
            self._find_ways,
            self._connect_and_send,
            self._connect_ahead,
            self._probe,
            self._close_unneeded,
            self._complain,
        )

    def _new_link(
        self, name: str, node: int, host: str, port: int, *, longest_pause: float = math.inf
    ) -> Link:
        first, longest = self.settings.reconnect_backoff, self.settings.reconnect_backoff_max
        backoff = Backoff(first, min(longest, max(first, longest_pause)))
        return Link(name, node, host, port, backoff)

    def measure(self, now: float) -> Mapping[Metric, float]:
        """Connections, requests, answers and their times."""
        links = self._links()
        return self._metrics.measure(
            now,
            connections=sum(link.state is LinkState.READY for link in links),
            in_flight=sum(len(link.in_flight) for link in links),
        )

    @property
    def sleeper(self) -> Net:
        """The sockets: whatever comes in from a broker ends the sleep."""
        return self._net

    # -- what the runtime calls

    def say(self, message: Message) -> None:
        """The answer to a request goes to its sender, all else to whom the routes name."""
        if isinstance(message, ResponseReceived | RequestFailed):
            self.tell(message.request.sender, message)
        else:
            super().say(message)

    def on_stop(self) -> None:
        """Pykka's hook: close every socket."""
        self._net.close()

    # -- requests in

    @handles(SendRequests)
    def on_send_requests(self, message: SendRequests) -> None:
        """Queue each request at its link; the tick that follows sends them."""
        now = self._moment.heed(message.now)
        for request in message.requests:
            self._enqueue(ClientRequest(request, next(self._numbers), now))

    @handles(ExpectFetches)
    def on_expect_fetches(self, message: ExpectFetches) -> None:
        """Note the brokers; the tick that follows connects, while positions are looked up."""
        self._lanes.expect(message.nodes)

    def _enqueue(self, waiting: ClientRequest) -> None:
        to = waiting.request.to
        if to is Destination.ANY:
            self._anywhere.append(waiting)
            return
        self._complaints.advertised.wanted(waiting.came_at)
        if to is Destination.COORDINATOR:
            if not self._lanes.is_coordinator_known:
                self._fail(waiting, CoordinatorNotAvailableError("no coordinator is known"))
            else:
                self._lanes.to_coordinator(waiting.request.lane).queue(waiting)
        elif to in self._lanes.nodes:
            self._lanes.to_node(to, waiting.request.lane).queue(waiting)
        else:
            text = f"broker {to} is not in the cluster's metadata (it may have left, or be new)"
            self._fail(waiting, KafkaConnectionError(text), node=to)

    # -- what others know

    @handles(ClusterChanged)
    def on_cluster_changed(self, message: ClusterChanged) -> None:
        """Follow the brokers: some are new, have moved or have left."""
        self._has_news = True
        lanes = self._lanes
        for broker in message.cluster.brokers.values():
            if broker.node_id not in lanes.nodes:
                self._adopt_bootstrap_connection(lanes.add(broker))
            for link in lanes.of_node(broker.node_id):
                self._follow(link, broker)
        for node in lanes.nodes.keys() - message.cluster.brokers.keys():
            because = f"broker {node} left the cluster"
            for link in lanes.remove(node):
                self._retire(link, KafkaConnectionError(because), because)
        self._complaints.advertised.changed(
            (link.address for link in lanes.nodes.values()),
            others=(link.address for link in self._bootstrap),
        )

    @handles(Rebootstrap)
    def on_rebootstrap(self, message: Rebootstrap) -> None:
        """Close every connection: the broker may belong to another cluster by now (KIP-1102)."""
        for link in self._links():
            self._drop(link, message.because)

    def _adopt_bootstrap_connection(self, link: Link) -> None:
        """The bootstrap server turned out to be this broker: no second connection is needed."""
        for other in self._bootstrap:
            if other.state is LinkState.READY and other.address == link.address:
                link.adopt(other)
                self._lanes.opened(link)
                self.log.info(
                    "connection.adopted", address=link.address, node=link.node, connection=link.key
                )
                return

    def _follow(self, link: Link, broker: Broker) -> None:
        """The broker is at this address now; if that is another one, close the connection."""
        if (link.host, link.port) == (broker.host, broker.port):
            return
        self._drop(link, f"broker {link.node} moved to {written(broker.host, broker.port)}")
        link.move_to(broker.host, broker.port)

    @handles(CoordinatorFound)
    def on_coordinator_found(self, message: CoordinatorFound) -> None:
        """Group requests go to this broker, over connections that no Fetch can block."""
        broker, lanes = message.broker, self._lanes
        self._has_news = True
        lanes.coordinator_found()
        if lanes.coordinator is not None and lanes.coordinator.node == broker.node_id:
            for link in lanes.of_coordinator():
                self._follow(link, broker)
            return
        because = f"the coordinator is broker {broker.node_id} now"
        for link in lanes.coordinator_is(broker):
            self._retire(link, CoordinatorNotAvailableError(because), because)

    @handles(CoordinatorLost)
    def on_coordinator_lost(self, message: CoordinatorLost) -> None:
        """Send nothing more to it. Its connections stay open: answers may still come."""
        self._lanes.coordinator_lost()
        for link in self._lanes.of_coordinator():
            for waiting in link.take_unsent():
                self._fail(waiting, CoordinatorNotAvailableError(message.because))

    @handles(ActorsRestarted)
    def on_actors_restarted(self, message: ActorsRestarted) -> None:
        """Requests of the restarted actors that were not sent yet are not sent any more: the new
        actors ask for what they need."""
        fallen = frozenset(message.actors)
        for link in self._links():
            for waiting in link.take_unsent(of=fallen):
                self._fail(waiting, ActorRestartedError(actor=waiting.request.sender))
        orphans = [waiting for waiting in self._anywhere if waiting.request.sender in fallen]
        for waiting in orphans:
            self._anywhere.remove(waiting)
            self._fail(waiting, ActorRestartedError(actor=waiting.request.sender))
        # A broker answers in order: the new fetch manager's Fetch would wait behind the old one,
        # whose answer nobody reads, for up to `fetch_max_wait_ms` or two seconds.
        for link in self._lanes.fetching.values():
            if any(waiting.request.sender in fallen for waiting in link.in_flight.values()):
                self._drop(link, "the fetch manager was restarted")

    # -- what the net reports

    @handles(ConnectionOpened)
    def on_connection_opened(self, report: ConnectionOpened) -> None:
        """Requests can be sent."""
        link = self._lanes.of_key(report.key)
        if link is None:
            return
        now = self._moment.heed(report.now)
        link.opened(now)
        self._has_news = True
        self._metrics.opened(now)
        self.broker_version = report.broker_version
        self.log.info(
            "connection.opened",
            address=link.address,
            node=link.node,
            connection=link.key,
            ms=milliseconds(now - link.attempts.begun_at),
        )

    @handles(ConnectionFailed)
    def on_connection_failed(self, report: ConnectionFailed) -> None:
        """Requests that waited for this attempt fail; the next attempt waits for the backoff."""
        link = self._lanes.closed(report.key)
        if link is None:
            return
        self._moment.heed(report.now)
        link.on(LinkEvent.FAILED)
        error = self._known(link, report.error)
        self.log.warning(
            "connection.failed",
            address=link.address,
            node=link.node,
            connection=report.key,
            because=error,
        )
        self._back_off(link, error)
        if any(other.proven_at > link.attempts.begun_at for other in self._others_to(link)):
            # The attempt began before the broker was back.
            link.attempts.end_wait(self._moment.now)
        refused = isinstance(error, AuthenticationError)
        if not refused:
            self._suspect(link, error)
        for waiting in link.take_unsent():
            self._fail(waiting, error, node=link.node)
        if refused:
            self._on_refused(link, error)

    def _on_refused(self, link: Link, error: Exception) -> None:
        """The broker refused our credentials. Other brokers will, too, and a retry does not help:
        tell the application at once."""
        self._has_news = True
        link.attempts.pause(self._moment.now + stretched(REFUSED_PAUSE, self._moment.next_jitter()))
        while self._anywhere:
            self._fail(self._anywhere.popleft(), error, node=link.node)
        # Who catches the error and asks why must not be told that nothing is wrong.
        self._show()
        self._say(BrokerRefused(error=error))

    @handles(ConnectionClosed)
    def on_connection_closed(self, report: ConnectionClosed) -> None:
        """Requests in flight fail; requests not sent yet wait for the next connection."""
        link = self._lanes.closed(report.key)
        if link is None:
            return
        self._metrics.closed(self._moment.heed(report.now))
        link.on(LinkEvent.LOST)
        error = self._known(link, report.error)
        self.log.info(
            "connection.closed",
            address=link.address,
            node=link.node,
            connection=report.key,
            because=error,
        )
        self._back_off(link, error)
        self._suspect(link, error)
        for waiting in link.take_in_flight():
            self._fail(waiting, error, node=link.node)

    def _known(self, link: Link, error: Exception) -> Exception:
        """The error, with no guess about a broker that has answered us."""
        answered = any(one.heard.at > -math.inf for one in (link, *self._others_to(link)))
        return without_guess(error) if answered else error

    def _suspect(self, link: Link, error: Exception) -> None:
        """A connection to the coordinator was refused or closed: another broker may be it by now.
        Without this the next heartbeat would find out, and a heartbeat may wait for half of the
        session to be sent."""
        if link not in self._lanes.of_coordinator():
            return
        self._has_news = True
        latest = self._moment.now + stretched(COORDINATOR_PAUSE, self._moment.next_jitter())
        retry_at, because = min(link.attempts.retry_at, latest), reason_of(error)
        link.attempts.pause(retry_at)
        self._say(SuspectCoordinator(node_id=link.node, because=because, retry_at=retry_at))

    @handles(RequestAnswered)
    def on_request_answered(self, report: RequestAnswered) -> None:
        """Tell the answer to the sender of the request."""
        link = self._lanes.of_key(report.key)
        waiting = link.take(report.request_id) if link is not None else None
        if link is None or waiting is None:
            self.log.info(
                "answer.dropped",
                api=type(report.response).__name__,
                connection=report.key,
                because="nobody waits for it any more",
            )
            return
        now = self._moment.heed(report.now)
        self._prove(link)
        link.answered(now, report.throttle)
        if report.throttle:
            self._has_news = True
        if waiting.body_name == "Metadata":
            self._complaints.advertised.told_by(link.address)
        self._metrics.answered(
            link.name,
            waiting.body_name,
            now,
            seconds=now - waiting.sent_at,
            sizes=report.sizes,
            throttle=report.throttle,
        )
        self.log.debug(
            "request.answered",
            api=waiting.body_name,
            api_version=report.version,
            node=link.node,
            request=waiting.request.number,
            ms=milliseconds(now - waiting.sent_at),
            throttle_ms=milliseconds(report.throttle),
            cause=waiting.cause,
        )
        self._say(
            ResponseReceived(
                request=waiting.request,
                response=report.response,
                node=link.node,
                now=now,
                jitter=self._moment.next_jitter(),
            )
        )

    def _prove(self, link: Link) -> None:
        if not link.proven:
            self._has_news = True
            link.prove(self._moment.now)
            self._end_waits(link)
            self._complaints.advertised.answered(link.address, as_broker=link.node >= 0)
            if self._bootstrap.answered():
                self._say(BrokersReached())

    def _end_waits(self, link: Link) -> None:
        """This broker answers again. Each link has a backoff of its own, and one that failed often
        would wait for half a minute more, though nothing keeps its requests back now."""
        for other in self._others_to(link):
            other.attempts.end_wait(self._moment.now)

    def _others_to(self, link: Link) -> list[Link]:
        """The other links to the same address."""
        others = [other for other in self._links() if other is not link]
        return [other for other in others if other.address == link.address]

    @handles(RequestBroken)
    def on_request_broken(self, report: RequestBroken) -> None:
        """This request cannot be sent to this broker; the connection is still usable."""
        link = self._lanes.of_key(report.key)
        waiting = link.take(report.request_id) if link is not None else None
        self._moment.heed(report.now)
        if link is not None and waiting is not None:
            self._fail(waiting, report.error, node=link.node)

    # -- the tick

    @handles(Tick)
    def on_tick(self, tick: Tick) -> None:
        """Do what is due, and say when to wake."""
        if not self._bootstrap.is_begun:
            self._bootstrap.begin_with(tick.jitter)
        now = self._moment.begin_tick(tick.now, tick.jitter)
        wake_at = AGAIN
        while wake_at == AGAIN:
            wake_at = min([duty(now) for duty in self._handlers.duties])
        if self._has_news:
            self._show()
        self.has_acted()
        self._say(
            Ticked(actor=self.name, incarnation=self.incarnation, requests=(), wake_at=wake_at)
        )

    def _show(self) -> None:
        """Publish what `status()` and `why()` say of the brokers."""
        self._has_news = False
        self.present = network_now(
            self._lanes.all(),
            self._bootstrap,
            fetching=self._lanes.fetching.values(),
            to_coordinator=self._lanes.of_coordinator(),
        )

    def _links(self) -> list[Link]:
        return [*self._lanes.all(), *self._bootstrap]

    # deadlines

    def _give_up_late(self, now: float) -> float:
        """Fail requests whose deadline has come. (A queued request that is sent later in this tick
        keeps its deadline, so the returned time stays right.)"""
        for waiting in [waiting for waiting in self._anywhere if waiting.request.deadline <= now]:
            self._anywhere.remove(waiting)
            self._fail(waiting, self._late(waiting, now, "no broker could be reached"))
        wake_at = min([waiting.request.deadline for waiting in self._anywhere], default=NEVER)
        longest = self.settings.request_timeout
        for link in self._links():
            if link.unsent:
                if link.expires_at <= now:
                    self._give_up_unsent(link, now)
                wake_at = min(wake_at, link.expires_at)
            if link.in_flight:
                late_at = link.late_at(longest)
                if late_at <= now:
                    self._give_up_unanswered(link, now)
                    late_at = link.late_at(longest)
                wake_at = min(wake_at, late_at)
        return wake_at

    def _give_up_unsent(self, link: Link, now: float) -> None:
        for waiting in [waiting for waiting in link.unsent if waiting.request.deadline <= now]:
            link.unqueue(waiting)
            error = self._late(waiting, now, f"it was not sent to broker {link.address}", link)
            self._fail(waiting, error, node=link.node)

    def _give_up_unanswered(self, link: Link, now: float) -> None:
        late = [waiting for waiting in link.in_flight.values() if waiting.request.deadline <= now]
        ends = min(waiting.sent_at for waiting in late) + self.settings.request_timeout
        if now < ends and self._net.has_heard(link.key):
            # A large answer over a slow connection is arriving: the broker is not dead.
            link.be_patient(until=now + ARRIVING_PATIENCE)
        else:
            self._hang_up(link, late, now)

    def _hang_up(self, link: Link, late: Collection[ClientRequest], now: float) -> None:
        """Close a connection that brings no answer, as Java's NetworkClient does: all requests in
        flight on it fail."""
        for waiting in late:
            link.take(waiting.request_id)
            error = self._late(waiting, now, f"broker {link.address} did not answer")
            self._fail(waiting, error, node=link.node)
        names = {waiting.body_name for waiting in late}
        self._drop(link, f"a {min(names)} request was not answered in time")
        if not link.holds:  # (if a JoinGroup link is half-open, a new one may be opened at once)
            text = f"broker {link.address}: it did not answer {min(names)} in time"
            asked_at = min(waiting.sent_at for waiting in late)
            self._back_off(link, KafkaConnectionError(text), asked_at=asked_at)

    def _late(
        self, waiting: ClientRequest, now: float, because: str, link: Link | None = None
    ) -> Exception:
        if link is not None:
            failures = [reason_of(link.failure)] if link.failure else []
        else:
            failures = [
                f"{other.address}: {reason_of(other.failure)}"
                for other in (*self._lanes.nodes.values(), *self._bootstrap)
                if other.failure
            ]
        error: Exception = KafkaTimeoutError(
            f"{waiting.body_name} timed out after {now - waiting.came_at:.3g} s: {because}"
            + (f" (last failure: {failures[0]})" if failures else "")
        )
        return error

    # the least loaded node

    def _find_ways(self, now: float) -> float:
        """Give each request that any broker may answer to a link, or begin a connection for it."""
        while self._anywhere:
            limit = self.settings.max_in_flight
            way = least_loaded(self._lanes, self._bootstrap, now, limit)
            if not isinstance(way, Link):
                return way
            if way.state is LinkState.READY:
                way.queue(self._anywhere.popleft())
            else:
                self._trace_bootstrap(way)
                self._connect(way, now)
        return NEVER

    def _trace_bootstrap(self, link: Link) -> None:
        if link in self._bootstrap and self._bootstrap.on(BootstrapEvent.ASKED):
            known = bool(self._lanes.nodes)
            self.log.info(
                "bootstrap.started",
                addresses=[server.address for server in self._bootstrap],
                because="no known broker can be reached" if known else "no broker is known",
            )

    # connections

    def _connect_ahead(self, now: float) -> float:
        """Open connections that will be needed shortly: for Fetches that were announced, and the
        coordinator's own for the heartbeats that follow a JoinGroup."""
        for node in self._lanes.take_expected():
            self._connect_if_due(self._lanes.to_node(node, Lane.FETCH), now)
        own = self._lanes.coordinator
        if own is None or not any(link.unsent for link in self._lanes.holding):
            return NEVER
        self._connect_if_due(own, now)
        return own.connect_at

    def _connect_if_due(self, link: Link, now: float) -> None:
        if link.connect_at <= now:
            self._connect(link, now)

    def _connect_and_send(self, now: float) -> float:
        """Send the queued requests; open the connections that they need."""
        wake_at = NEVER
        for link in self._links():
            if link.unsent:
                self._connect_if_due(link, now)
                while self._send_at(link) <= now:
                    self._send(link, link.next_unsent(), now)
                if link.unsent:
                    wake_at = min(wake_at, link.connect_at, self._send_at(link))
        return wake_at

    def _send(self, link: Link, waiting: ClientRequest, now: float) -> None:
        link.sent(waiting, now)
        self._metrics.sent(link.name, waiting.body_name, now)
        if self.log.hears_debug():
            self.log.debug(
                "request.sent",
                api=waiting.body_name,
                node=link.node,
                request=waiting.request.number,
                cause=waiting.cause,
            )
            waiting.was_told(self.log.strand.last)
        self._net.send(link.key, waiting.request_id, waiting.request.body)

    def _send_at(self, link: Link) -> float:
        """When the link's first request may be sent; NEVER: not before a message comes."""
        return max(link.send_at(self.settings.max_in_flight), self._lanes.in_order_at(link))

    def _connect(self, link: Link, now: float) -> None:
        self._has_news = True
        self._bootstrap.tried(now)
        link.begin(f"{link.name}#{self.incarnation}.{next(self._numbers)}", now)
        self._lanes.opened(link)
        if link.node >= 0:
            self._complaints.advertised.tried(now)
        self._net.connect(
            link.key,
            link.host,
            link.port,
            self.settings.connection_setup_timeout,
            canonical=link.node < 0 and self._wants_canonical_names,
            jitter=self._moment.next_jitter(),
        )

    @property
    def _wants_canonical_names(self) -> bool:
        mode = self.settings.connection.get("client_dns_lookup")
        return bool(mode == "resolve_canonical_bootstrap_servers_only")

    def _drop(self, link: Link, because: str) -> None:
        """Close from our side: requests in flight fail, requests not sent yet stay queued."""
        if link.state is LinkState.IDLE:
            return
        if link.state is LinkState.READY:
            self._metrics.closed(self._moment.now)
        self._has_news = True
        link.on(LinkEvent.DROPPED)
        self._lanes.closed(link.key)
        self._net.close_connection(link.key)
        self.log.info(
            "connection.closed",
            address=link.address,
            node=link.node,
            connection=link.key,
            because=because,
        )
        for waiting in link.take_in_flight():
            text = f"disconnected from broker {link.address}: {because}"
            self._fail(waiting, KafkaConnectionError(text), node=link.node)

    def _back_off(self, link: Link, error: Exception, *, asked_at: float | None = None) -> None:
        self._has_news = True
        now, jitter = self._moment.now, self._moment.next_jitter()
        link.attempts.failed(now, jitter, error, proven=link.proven, asked_at=asked_at)

    def _retire(self, link: Link, error: Exception, because: str) -> None:
        """No new requests for this link; it closes when the last answer has come."""
        for waiting in link.take_unsent():
            self._fail(waiting, error, node=link.node)
        if link.in_flight:
            self._lanes.retire(link)
        else:
            self._drop(link, because)

    def _close_unneeded(self, now: float) -> float:
        """Close connections that nobody needs any more."""
        for link in self._lanes.take_retired():
            self._drop(link, "its broker is not needed any more")
        for link in self._lanes.take_spare():
            self._drop(link, "the request that it was for is over")
        wake_at = NEVER
        for link in self._links():
            if link.state is not LinkState.READY or link.busy:
                continue
            idle_at = link.used_at + self._max_idle(link)
            if idle_at <= now:
                self._drop(link, "it was idle")
                wake_at = AGAIN
            elif link.node < 0 and self._is_a_broker_connected():
                self._drop(link, "a broker of the cluster is connected")
                wake_at = AGAIN
            else:
                wake_at = min(wake_at, idle_at)
        return wake_at

    def _max_idle(self, link: Link) -> float:
        most = self.settings.connections_max_idle
        return min(most, HOLDING_IDLE) if link.holds else most

    def _is_a_broker_connected(self) -> bool:
        return any(link.state is LinkState.READY for link in self._lanes.nodes.values())

    # complaints

    def _probe(self, now: float) -> float:
        """Try brokers that no request needs, to learn whether any can be reached."""
        links, again_at = self._complaints.to_probe(self._lanes.nodes.values(), now)
        for link in links:
            self._connect(link, now)
        return again_at

    def _complain(self, now: float) -> float:
        """Tell the application of brokers that cannot be reached."""
        anybody = bool(self._anywhere)
        said, again_at = self._complaints.due(self._links(), now, anybody=anybody)
        for message in said:
            self._say(message)
        return again_at

    @handles(ReportBootstrap)
    def on_report_bootstrap(self, asked: ReportBootstrap) -> None:
        """Answer with the error of the attempts so far if no broker was reached, else with None."""
        bootstrap = self._bootstrap
        wanted = bootstrap.is_begun and bootstrap.is_nobody_there
        value = bootstrap.error() if wanted else None
        self._say(Answered(ticket=asked.ticket, value=value))

    # -- answers out

    def _fail(self, waiting: ClientRequest, error: Exception, *, node: int | None = None) -> None:
        self.log.debug(
            "request.failed",
            api=waiting.body_name,
            node=node,
            request=waiting.request.number,
            because=error,
            cause=waiting.cause,
        )
        self._say(
            RequestFailed(
                request=waiting.request,
                error=error,
                node=node,
                now=self._moment.now,
                jitter=self._moment.next_jitter(),
                was_sent=waiting.was_sent,
            )
        )
