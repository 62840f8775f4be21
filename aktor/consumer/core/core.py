"""What the application's half of a consumer is given: the wiring, whatever kind of consumer it is;
and the core, on which all parts of an `Engine` work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from aktor.consumer.core.call import Call
from aktor.consumer.core.consumption import Consumption
from aktor.consumer.core.delivery import Delivery, ReaderMaker
from aktor.consumer.core.poll_heartbeat import PollHeartbeat
from aktor.consumer.core.port import ApplicationPort, EventQueue, Port, Publish
from aktor.consumer.core.subscription import Subscription
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["Core", "Wiring"]

P_co = TypeVar("P_co", bound=Port, covariant=True)


class Wiring(Value, Generic[P_co]):
    """The ways of an application's half to the background and to the trace."""

    settings: Settings
    #: Where the background's messages wait.
    port: P_co
    #: Tells the background a message.
    publish: Publish
    #: The time, in seconds.
    clock: Callable[[], float]
    trace: Trace
    #: The trace of the actor "application".
    log: Trace


class Core(Wiring[ApplicationPort]):
    """Given to most parts of an `Engine` when they are made; the others need less."""

    #: There are deserializers: what a record's reader has made of bytes is no bytes.
    deserializes: bool
    #: What the background said, on which a poll has yet to act.
    events: EventQueue
    call: Call
    delivery: Delivery
    subscription: Subscription
    poll_heartbeat: PollHeartbeat

    @classmethod
    def of(
        cls,
        wiring: Wiring[ApplicationPort],
        *,
        make_reader: ReaderMaker,
        deserializes: bool = False,
    ) -> Core:
        """A new core."""
        settings, port, clock = wiring.settings, wiring.port, wiring.clock
        samples, window = settings.metrics_num_samples, settings.metrics_sample_window
        consumption = Consumption(clock, samples, window)
        delivery = Delivery(make_reader, wiring.trace, settings.isolation_level, consumption, clock)
        subscription = Subscription(port, wiring.publish, wiring.log, settings.group_id)
        return cls(
            **wiring.__getstate__(),
            deserializes=deserializes,
            events=EventQueue(port),
            call=Call(port),
            delivery=delivery,
            subscription=subscription,
            poll_heartbeat=PollHeartbeat(
                settings, port, wiring.publish, delivery, subscription, wiring.log.strand
            ),
        )
