"""The coordinator manager: finds the broker that looks after our group, and finds it again."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Final

from kafka.errors import (
    CoordinatorNotAvailableError,
    NoError,
)
from kafka.protocol.metadata import FindCoordinatorRequest

from aktor.actors.runtime.handlers import answers_to, failure_of, handles
from aktor.actors.runtime.manager import (
    NEVER,
    REFUSED_PAUSE,
    Backoff,
    Duty,
    RequestManager,
    stretched,
)
from aktor.events.coordinator import (
    CoordinatorFound,
    CoordinatorLost,
    CoordinatorMissing,
    CoordinatorRefused,
    SuspectCoordinator,
)
from aktor.events.metadata import Broker, RefreshMetadata
from aktor.events.metric import COORDINATOR_METRICS, Metric
from aktor.events.network import Destination, Rebootstrap, RequestFailed, ResponseReceived
from aktor.events.present import CoordinatorNow
from aktor.events.routes import COORDINATOR, NETWORK
from aktor.protocol.error_codes import Answer, Do, error_of, means, name_of
from aktor.protocol.refusals import explained, named_node
from aktor.protocol.remedies import remedy
from aktor.state_table import follow

__all__ = ["TRANSITIONS", "CoordinatorEvent", "CoordinatorManager", "CoordinatorState"]

#: Any broker answers FindCoordinator from its memory. A broker that has not answered in this many
#: seconds is gone, or its connection is half-open, and the next attempt goes to another broker: to
#: wait `request_timeout_ms` (30 s) would cost the member most of its session.
ANSWER_WITHIN: Final = 5.0

#: If the coordinator is suspected again within this many seconds, FindCoordinator waits for the
#: backoff; after a longer time without a suspicion it is sent at once.
CALM_AFTER: Final = 10.0

#: The longest backoff, in seconds, while no coordinator is known (`retry_backoff_max_ms` is 1 s by
#: default). When another broker takes over from one that died, the members' sessions are nearly
#: over: they have to hear of it soon.
LOOK_AGAIN: Final = 0.25

#: The longest backoff in the first seconds after a coordinator was lost. The controller gives up a
#: dead broker within 9 s (`broker.session.timeout.ms`); then each member should hear of the next
#: coordinator at once. If the cluster has none for longer than that, ten requests a second of each
#: member would be a load for nothing.
LOOK_SOON: Final = 0.1
SOON_FOR: Final = 12.0

#: KIP-699's `key_type` of consumer groups.
GROUP_KEY: Final = 0


class CoordinatorState(enum.Enum):
    """Whether the coordinator is known, or FindCoordinator is in flight."""

    UNKNOWN = "unknown"
    """The coordinator is looked up when the backoff is over."""
    ASKED = "asked"
    """FindCoordinator is in flight."""
    KNOWN = "known"
    """Other managers send requests to the coordinator, until one of them suspects it."""
    SUSPECTED = "suspected"
    """The coordinator is lost. The next tick notes the time: the backoff depends on how soon
    suspicions repeat."""


class CoordinatorEvent(enum.Enum):
    """What leads from one state to the next."""

    SENT = "sent"
    """FindCoordinator is sent."""
    FOUND = "found"
    """A broker has named the coordinator."""
    FAILED = "failed"
    """The broker did not answer, or answered with an error."""
    SUSPECTED = "suspected"
    """The coordinator did not act as one, or the client goes back to its bootstrap servers."""
    NOTED = "noted"
    """The time of the suspicion is noted."""


_S, _E = CoordinatorState, CoordinatorEvent

#: The whole machine. A pair that is not here is a bug in us, never in the broker.
TRANSITIONS: Final[Mapping[CoordinatorState, Mapping[CoordinatorEvent, CoordinatorState]]] = {
    _S.UNKNOWN:   {_E.SENT: _S.ASKED},
    _S.ASKED:     {_E.FOUND: _S.KNOWN, _E.FAILED: _S.UNKNOWN},
    _S.KNOWN:     {_E.SUSPECTED: _S.SUSPECTED},
    _S.SUSPECTED: {_E.NOTED: _S.UNKNOWN},
}  # fmt: skip


#: Each tick compares with it. Before Python 3.12 a member of an Enum class is slow to read.
_KNOWN: Final = CoordinatorState.KNOWN

NODE: Final = Metric(
    name="coordinator-node",
    group=COORDINATOR_METRICS,
    kind="gauge",
    description="the id of the broker that coordinates the group; -1: it is not known",
)


class CoordinatorManager(RequestManager):
    """Owns the coordinator's address.

    With a `group_id` it looks the coordinator up from the start, with one request in flight;
    without a `group_id` it does nothing. After a retriable error it asks again after the backoff.
    After an error that no retry mends it says `CoordinatorRefused`, each time, and asks again after
    the longest backoff, but not before `REFUSED_PAUSE` is over.
    """

    name = COORDINATOR
    NEEDS = (NETWORK,)
    READS = (
        "group_id",
        "request_timeout",
        "retry_backoff",
        "retry_backoff_max",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        first, longest = self.settings.retry_backoff, self.settings.retry_backoff_max
        self.state = CoordinatorState.UNKNOWN
        self.broker: Broker | None = None
        self._failures = Backoff(first, min(longest, LOOK_AGAIN))
        self._suspicions = Backoff(first, min(longest, LOOK_AGAIN))
        self._suspected_at = -math.inf
        #: When the last coordinator was lost that had been known for a calm time.
        self._lost_at = -math.inf
        #: A coordinator whose connection was refused or closed, and when the next may be tried.
        self._unreachable: tuple[Broker, float] | None = None
        #: The last coordinator that was known; since when none is, how often one was looked for
        #: since, how the last look-up ended, and whether it was refused for good.
        self._last: Broker | None = None
        self._unknown_since = -math.inf
        self._asked = 0
        self._trouble = ""
        self._is_refused = False
        self._moved_at = -math.inf
        self._was = ""
        self._shown: tuple[bool, Broker | None, int, str, float] | tuple[()] = ()

    def note_present(self, now: float) -> None:
        """Show whether the coordinator is known, if that has changed."""
        known = self.state is _KNOWN
        if known and self._shown and self._shown[0] and self._shown[1] is self._last:
            return  # so it is in most ticks
        if known:
            self._unknown_since = -math.inf
        elif self._unknown_since == -math.inf:
            self._unknown_since = now
        due = max(self._failures.retry_at, self._suspicions.retry_at)
        retry_at = -math.inf if self.state is CoordinatorState.ASKED else due
        shown = (known, self._last, self._asked, self._trouble, retry_at)
        if shown == self._shown or self.settings.group_id is None:
            return
        before, last = self._shown[1] if self._shown else None, self._last
        if before is not None and last is not None and before.node_id != last.node_id:
            self._moved_at = now
            self._was = f"broker {before.node_id}, {before.address}"
        self._shown = shown
        self.present = CoordinatorNow(
            known=known,
            node=-1 if last is None else last.node_id,
            address="" if last is None else last.address,
            since=self._unknown_since,
            asked=self._asked,
            trouble=self._trouble,
            retry_at=retry_at,
            refused=self._is_refused,
            moved_at=self._moved_at,
            was=self._was,
        )

    def measure(self, _now: float) -> Mapping[Metric, float]:
        """Which broker is the coordinator."""
        return {NODE: -1 if self.broker is None else self.broker.node_id}

    # -- what to send, and when

    def duties(self) -> tuple[Duty, ...]:
        """Look the coordinator up."""
        return (self._find_coordinator,)

    def _find_coordinator(self, now: float, jitter: float) -> float:
        """A FindCoordinator if the coordinator is unknown and the backoff is over."""
        if self.state is CoordinatorState.SUSPECTED:
            self._note_suspicion(now, jitter)
        if self.settings.group_id is None or self.state is not CoordinatorState.UNKNOWN:
            return NEVER
        due = max(self._failures.retry_at, self._suspicions.retry_at)
        if now < due:
            return due

        self._move(CoordinatorEvent.SENT)
        self._asked += 1
        body = FindCoordinatorRequest(
            # Version 4 asks for a list of keys (KIP-699); what the version lacks is not encoded.
            key=self.settings.group_id,
            coordinator_keys=[self.settings.group_id],
            key_type=GROUP_KEY,
            max_version=6,
        )
        deadline = now + min(self.settings.request_timeout, ANSWER_WITHIN)
        self.send(self.request(body, to=Destination.ANY, deadline=deadline))
        return NEVER

    def _note_suspicion(self, now: float, jitter: float) -> None:
        self._move(CoordinatorEvent.NOTED)
        if now - self._suspected_at < CALM_AFTER:
            self._suspicions.failed(now, jitter)
            self._shorten(self._suspicions, now)
        else:
            self._suspicions.reset()
            self._lost_at = now
        self._suspected_at = now

    def _shorten(self, backoff: Backoff, now: float) -> None:
        """Look again soon, if a coordinator was lost a short time ago."""
        if now - self._lost_at < SOON_FOR:
            soon = max(self.settings.retry_backoff, LOOK_SOON)
            backoff.pause(min(backoff.retry_at, now + soon))

    def _move(self, event: CoordinatorEvent) -> None:
        """The only place where `state` is assigned."""
        self.state = follow(TRANSITIONS, self.state, event)

    # -- how it ended

    @answers_to(FindCoordinatorRequest)
    def on_found_or_refused(self, received: ResponseReceived) -> None:
        """The answer to our look-up."""
        result = self._result(received.response)
        error_type = CoordinatorNotAvailableError if result is None else error_of(result.error_code)
        if error_type is not NoError:
            error_message = str(getattr(result, "error_message", None) or "")[:200]
            error = error_type(self._explain(error_type, error_message, received.node))
            self._failed(error, received.now, received.jitter)
            return

        assert result is not None, "an answer without a coordinator is an error"
        found = Broker(node_id=result.node_id, host=result.host, port=result.port)
        if self._unreachable is not None and self._unreachable[0] == found:
            retry_at = self._unreachable[1]
            if received.now < retry_at:
                self._look_on(found, received.now, retry_at)
                return
        self._move(CoordinatorEvent.FOUND)
        self._failures.reset()
        self.broker = self._last = found
        self._asked, self._trouble, self._is_refused = 0, "", False
        self.log.info(
            "coordinator.found",
            group=self.settings.group_id,
            node=result.node_id,
            address=found.address,
        )
        self._say(CoordinatorFound(broker=self.broker))
        self._follow_fail_over(found)

    def _follow_fail_over(self, found: Broker) -> None:
        """If the coordinator could not be reached, and another broker is the coordinator now, the
        controller has given up the former one: its partitions have new leaders, too. Ask for them
        at once; the Fetches to that broker would find out up to a second later."""
        if self._unreachable is None or self._unreachable[0].node_id == found.node_id:
            return
        former = self._unreachable[0].node_id
        self._unreachable = None
        because = f"broker {found.node_id} has taken over from broker {former}"
        self._say(RefreshMetadata(because=because))

    def _look_on(self, broker: Broker, now: float, retry_at: float) -> None:
        """The brokers still name the one that cannot be reached, as they do until its own session
        with the controller ends. Requests to it would wait for its connection: ask again soon, and
        try the connection when that may be done."""
        self._move(CoordinatorEvent.FAILED)
        self._failures.pause(min(retry_at, now + LOOK_AGAIN))
        self._shorten(self._failures, now)
        because = f"{broker} cannot be reached"
        self._last, self._trouble = broker, because
        self.log.debug(
            "coordinator.retried",
            group=self.settings.group_id,
            because=because,
            attempts=self._failures.failures,
            wait_ms=round((self._failures.retry_at - now) * 1000),
        )
        self._say(CoordinatorMissing(because=because))

    @failure_of(FindCoordinatorRequest)
    def on_find_failed(self, failed: RequestFailed) -> None:
        """The node did not answer. The next attempt may go to another node."""
        error = failed.error
        if Do.RAISE in means(Answer.FIND_COORDINATOR, type(error)):
            of = f"group {self.settings.group_id!r}"
            error = explained(error, of, Answer.FIND_COORDINATOR)
        self._failed(error, failed.now, failed.jitter)

    def _result(self, response: Any) -> Any:
        """The part of the response that is about our group, None if there is none."""
        if response.API_VERSION < 4:
            return response
        ours = [
            coordinator
            for coordinator in response.coordinators
            if coordinator.key == self.settings.group_id
        ]
        return ours[0] if ours else None

    def _failed(self, error: Exception, now: float, jitter: float) -> None:
        self._move(CoordinatorEvent.FAILED)
        self._trouble = str(error.args[0]) if error.args else type(error).__name__
        self._is_refused = Do.RAISE in means(Answer.FIND_COORDINATOR, type(error))
        if Do.RAISE not in means(Answer.FIND_COORDINATOR, type(error)):
            self._failures.failed(now, jitter)
            self._shorten(self._failures, now)
            self.log.info(
                "coordinator.retried",
                group=self.settings.group_id,
                because=error,
                attempts=self._failures.failures,
                wait_ms=round((self._failures.retry_at - now) * 1000),
            )
            because = str(error.args[0]) if error.args else str(error)
            self._say(CoordinatorMissing(because=because))
            return

        pause = stretched(max(self.settings.retry_backoff_max, REFUSED_PAUSE), jitter)
        self._failures.pause(now + pause)
        self.log.warning(
            "coordinator.refused",
            group=self.settings.group_id,
            because=error,
            wait_ms=round(pause * 1000),
        )
        self._say(CoordinatorRefused(error=error))

    def _explain(self, error_type: Any, error_message: str, node: int) -> str:
        group, by = self.settings.group_id, named_node(node, {})
        reason = f"{name_of(error_type)}{': ' if error_message else ''}{error_message}"
        return (
            f"the coordinator of group {group!r} could not be found ({reason}), says {by};"
            f" {remedy(Answer.FIND_COORDINATOR, error_type)}"
        )

    # -- what others say

    @handles(SuspectCoordinator)
    def on_suspect_coordinator(self, suspect: SuspectCoordinator) -> None:
        """A broker did not act as our coordinator: look the coordinator up again."""
        if self.broker is None or self.broker.node_id != suspect.node_id:
            self.log.debug(
                "suspicion.dropped", node=suspect.node_id, because="it is not the coordinator"
            )
            return
        if suspect.retry_at is not None:
            self._unreachable = self.broker, suspect.retry_at
        self._lose(self.broker, suspect.because)

    @handles(Rebootstrap)
    def on_rebootstrap(self, message: Rebootstrap) -> None:
        """The known coordinator may belong to another cluster: look it up again (KIP-1102)."""
        if self.broker is not None:
            self._lose(self.broker, message.because)

    def _lose(self, broker: Broker, because: str) -> None:
        self._move(CoordinatorEvent.SUSPECTED)
        self.broker = None
        self._trouble = because
        self.log.info(
            "coordinator.lost",
            group=self.settings.group_id,
            node=broker.node_id,
            address=broker.address,
            because=because,
        )
        self._say(CoordinatorLost(because=because))
