"""What a consumer is made of, how it starts, and what it owes to the user when it is closed;
whatever drives it: threads with bells, or an event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aktor import kafka_python
from aktor.actors.runtime.dispatcher import Bell, Dispatcher
from aktor.consumer import deserializers
from aktor.consumer.core.core import Core
from aktor.consumer.core.delivery import ReaderMaker
from aktor.consumer.core.engine import Engine
from aktor.consumer.core.port import ApplicationPort
from aktor.consumer.deserializers import Deserialize
from aktor.consumer.system import ActorSystem, Host, kind_of
from aktor.events.fetching import Chunk
from aktor.records import RecordReader
from aktor.records import status as reader_in_use
from aktor.settings import Settings
from aktor.trace import open_trace
from aktor.version import __version__

if TYPE_CHECKING:
    from aktor.consumer.core.half import ApplicationHalf

__all__ = ["GIVE_UP_WAIT", "Assembly", "assemble"]

#: How long a consumer that cannot begin waits for the end of its thread, in seconds.
GIVE_UP_WAIT: Final = 5.0


class Assembly(NamedTuple):
    """The parts of one consumer. No thread runs before `start`."""

    host: Host
    dispatcher: Dispatcher
    core: Core
    engine: Engine

    def start(self) -> None:
        """Start the background thread."""
        core = self.core
        self.host.start(self.dispatcher, f"aktor-{core.settings.client_id}")
        core.log.info(
            "consumer.started",
            aktor=__version__,
            reader=reader_in_use(),
            kafka_python=kafka_python.version(),
        )

    def end(self, to_close: list[Any]) -> Exception | None:
        """The thread has ended. End what was asked of it, run the callbacks of commits, and close
        these deserializers. May be done twice; returns the first error of the user's code."""
        self.core.port.close()
        return _run_last_callbacks(self.engine, to_close)


def assemble(
    config: Mapping[str, Any],
    settings: Settings,
    host: Host,
    bell: Bell,
    *,
    key: Deserialize | None,
    value: Deserialize | None,
) -> Assembly:
    """Make the actors, and the application's half, which is told by `bell` that there is news."""
    trace = open_trace(consumer=settings.client_id, group=settings.group_id)
    port = ApplicationPort(bell, trace)
    kind = kind_of(settings.group_protocol)
    dispatcher = ActorSystem(kind, settings, port, trace, host).dispatcher
    core = Core.make(
        settings,
        port,
        dispatcher.publisher(trace.strand),
        dispatcher.clock,
        trace,
        make_reader=reader_maker(settings, key, value),
        deserializes=not (key is None and value is None),
    )
    engine = kind.core(core, on_auto_commit=config["default_offset_commit_callback"])
    return Assembly(host, dispatcher, core, engine)


def reader_maker(
    settings: Settings, key: Deserialize | None, value: Deserialize | None
) -> ReaderMaker:
    """A function that makes the reader of a fetched chunk."""
    read_committed = settings.isolation_level == "read_committed"

    def make(chunk: Chunk) -> RecordReader:
        return RecordReader(
            chunk.data,
            topic=chunk.partition.topic,
            partition=chunk.partition.partition,
            fetch_offset=chunk.offset,
            check_crcs=settings.check_crcs,
            read_committed=read_committed,
            aborted=chunk.aborted,
            deserialize_key=key,
            deserialize_value=value,
            max_batch_bytes=settings.max_decompressed_batch_bytes,
        )

    return make


def _run_last_callbacks(half: ApplicationHalf, to_close: list[Any]) -> Exception | None:
    """Run the callbacks of commits, and `close` of these deserializers: all of them, even if some
    raise. Each is done once, also if an interrupt ends this and it is called again. Returns the
    first error."""
    failed, callbacks = None, half.commits.callbacks
    while callbacks.waiting or to_close:
        callbacks.begin_call()  # an interrupted callback does not run any more
        try:
            if callbacks.waiting:
                callbacks.run()
            else:
                deserializers.close(to_close.pop())
        except Exception as error:
            half.core.trace.warning("close.failed", because=error)
            failed = failed or error
    return failed
