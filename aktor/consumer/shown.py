"""What a `KafkaConsumer` shows of itself besides: its status, and why nothing comes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from aktor.actors.runtime.dispatcher import Dispatcher, Wake
from aktor.consumer.core.core import Core
from aktor.consumer.core.engine import Engine
from aktor.consumer.inside import Inside
from aktor.consumer.loaded import Loaded
from aktor.consumer.measured import Measured
from aktor.events.positions import FollowEnds
from aktor.events.present import FetchNow
from aktor.events.routes import FETCH, SUPERVISOR
from aktor.settings import Settings
from aktor.structs import ConsumerGroupMetadata, TopicPartition
from aktor.trace import Trace

if TYPE_CHECKING:
    from aktor.consumer.present.picture import CallsNow, Picture
    from aktor.consumer.present.watch import Watch
    from aktor.consumer.status import ConsumerStatus
    from aktor.consumer.system import Host

__all__ = ["Shown"]

#: Seconds between two looks of which the background is told.
LOOK_EVERY: Final = 1.0


class Shown(Measured, Inside):
    """The methods of a `KafkaConsumer` that only look, in every state and from any thread."""

    _core: Core
    _dispatcher: Dispatcher
    _engine: Engine
    _host: Host
    _settings: Settings

    #: When somebody looked last, and the partitions of which no Fetch told the end then.
    _last_look: tuple[float, frozenset[TopicPartition]] = (-math.inf, frozenset())

    def _begin_to_show(self) -> None:
        """The consumer has its parts."""
        super()._begin_to_show()
        look = _looks_later(self._engine, self._dispatcher, self._guard, self._core.log)
        self._dispatcher.watch_by(look)

    def status(self) -> ConsumerStatus:
        """How the consumer is now: what it waits for, ages, the member, the assignment, how far it
        was read, whether it is well.

        Works in every state, also after `close` and after a failure, in any thread, and waits for
        nobody: the facts are noted in less than a millisecond for 200 partitions (0.4 to 1.7 µs
        for each), also if the background thread hangs. What follows from them is worked out when
        it is read (`state`, `why`, `waiting_for`, `healthy`, `partitions`), and tells of the moment
        of the call, too. `str()` of it reads well. A look has the leaders of partitions that are
        not fetched (paused, say) asked where these end, so that the next look knows their lag.
        """
        self._note_look()
        return self._make_status()

    def _make_status(self) -> ConsumerStatus:
        return _loaded().make_status(
            self._picture(),
            client_id=self._settings.client_id,
            group_protocol=self._group_protocol(),
            member=self._core.port.membership.member,
            actors=[one for one in self._dispatcher.running if one.name != SUPERVISOR],
        )

    def why(self) -> str:
        """Why nothing is delivered now, in a sentence made of facts: what is not happening, since
        when, because of whom (a broker and its address, the group, the application's own poll or
        listener with its line), what happens next and when.

        As `status`: in every state, in any thread.
        """
        self._note_look()
        return _loaded().why(self._picture())

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The member's id and generation, for transactions; a snapshot, no request.

        If the member was expelled, these are the id and generation that it had: the group refuses
        commits with them.
        """
        group_id = self._settings.group_id
        if group_id is None:
            return ConsumerGroupMetadata(group_id=None)
        member = self._core.port.membership.was_member
        return ConsumerGroupMetadata(
            group_id,
            member.generation,
            member.member_id,
            self._settings.group_instance_id,
            self._core.port.membership.member.state.value,
        )

    def bootstrap_connected(self) -> bool:
        """Whether the cluster has been reached, and the consumer is not closed."""
        return not self._guard.closed and self._core.port.cluster.version > 0

    def _measure(self) -> None:
        self._note_look()
        super()._measure()

    def _note_look(self) -> None:
        """Somebody looks: if there are partitions that are not fetched, have their leaders asked
        where the logs end. The next look finds it. Any thread may come here, and waits for nobody.
        """
        port, dispatcher, now = self._core.port, self._dispatcher, self._dispatcher.clock()
        looked_at, before = self._last_look
        if now - looked_at < LOOK_EVERY or self._guard.closed or self._guard.forked:
            return
        fetch = dispatcher.present_of(FETCH)
        if not isinstance(fetch, FetchNow) or port.failure is not None:
            return
        if dispatcher.overdue(now) >= LOOK_EVERY:
            return  # it would read it much later
        unasked = _loaded().unasked(self._engine, fetch, now)
        self._last_look = now, unasked
        if unasked or before:
            dispatcher.publish(FollowEnds(partitions=unasked, now=now))

    def _picture(self) -> Picture:
        return _loaded().take(self._engine, self._dispatcher, self._guard)

    def _group_protocol(self) -> str:
        """The protocol that the group speaks; "auto" as long as that is not decided."""
        setting = self._settings.group_protocol
        return (self._core.port.membership.spoken or setting) if setting == "auto" else setting


class _Loaded(NamedTuple):
    unasked: Callable[..., frozenset[TopicPartition]]
    take: Callable[..., Picture]
    why: Callable[[Picture], str]
    make_status: Callable[..., ConsumerStatus]
    make_watch: Callable[..., Watch]


def _load() -> _Loaded:
    """The modules that look at a consumer. They take longer to load than all of a status, and a
    first record does not need them."""
    from aktor.consumer import status
    from aktor.consumer.present import ends, picture, watch
    from aktor.consumer.present.reasons import sentence

    return _Loaded(ends.unasked, picture.take, sentence.why, status.make, watch.Watch)


_loaded: Final = Loaded(_load)


def _looks_later(
    of: Engine, dispatcher: Dispatcher, guard: CallsNow, log: Trace
) -> Callable[[float], tuple[float, Wake]]:
    """The looks of a watch that is loaded when it first looks, a second after the consumer was
    made: neither an import nor the first record waits for it. What `status` and `why` need is
    loaded then, too: when they are needed most, a program may have no file left to open."""
    engine = weakref.ref(of)  # as `Watch` keeps it
    ahead = dispatcher.wall() - dispatcher.clock()
    watch: Watch | None = None

    def look(now: float) -> tuple[float, Wake]:
        nonlocal watch
        if watch is None:
            loaded = _loaded()
            if (alive := engine()) is None:
                return math.inf, Wake.NEVER
            watch = loaded.make_watch(alive, dispatcher, guard, log, ahead=ahead)
        try:
            return watch.look(now)
        except Exception:
            watch.failed()
            raise

    return look
