"""What all parts of the application's half work on."""

from __future__ import annotations

from collections.abc import Callable

from aktor.consumer.core.call import Call
from aktor.consumer.core.consumption import Consumption
from aktor.consumer.core.delivery import Delivery, ReaderMaker
from aktor.consumer.core.poll_heartbeat import PollHeartbeat
from aktor.consumer.core.port import ApplicationPort, EventQueue, Publish
from aktor.consumer.core.subscription import Subscription
from aktor.events.routes import APPLICATION
from aktor.settings import Settings
from aktor.trace import Trace
from aktor.values import Value

__all__ = ["Core"]


class Core(Value):
    """Given to each part when it is made."""

    settings: Settings
    #: There are deserializers: what a record's reader has made of bytes is no bytes.
    deserializes: bool
    #: Where the background's messages wait.
    port: ApplicationPort
    #: Tells the background a message.
    publish: Publish
    clock: Callable[[], float]
    trace: Trace
    #: The trace of the actor "application".
    log: Trace
    #: What the background said, on which a poll has yet to act.
    events: EventQueue
    call: Call
    delivery: Delivery
    subscription: Subscription
    heartbeat: PollHeartbeat

    @classmethod
    def make(
        cls,
        settings: Settings,
        port: ApplicationPort,
        publish: Publish,
        clock: Callable[[], float],
        trace: Trace,
        *,
        make_reader: ReaderMaker,
        deserializes: bool = False,
    ) -> Core:
        """A new core; `port`, `publish` and `clock` are its ways to the background."""
        log = trace.bind(actor=APPLICATION)
        samples, window = settings.metrics_num_samples, settings.metrics_sample_window
        consumption = Consumption(clock, samples, window)
        delivery = Delivery(make_reader, trace, settings.isolation_level, consumption, clock)
        subscription = Subscription(port, publish, log, settings.group_id)
        return cls(
            settings=settings,
            deserializes=deserializes,
            port=port,
            publish=publish,
            clock=clock,
            trace=trace,
            log=log,
            events=EventQueue(port),
            call=Call(port),
            delivery=delivery,
            subscription=subscription,
            heartbeat=PollHeartbeat(settings, port, publish, delivery, subscription),
        )
