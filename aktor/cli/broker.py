"""`aktor broker`: an embedded Kafka cluster in the foreground until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import queue
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from aktor.cli.main import CommandLineError

if TYPE_CHECKING:
    from aktor.broker.control import ControlPort
    from aktor.broker.embedded import EmbeddedKafka

__all__ = ["add_arguments", "run"]

_LAST_PORT: Final = 65535
_MOST_BROKERS: Final = 100
_MOST_PARTITIONS: Final = 10_000
_MOST_RECORDS: Final = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `aktor broker` takes."""
    add = parser.add_argument
    add(
        "--port",
        type=_number(0, _LAST_PORT),
        default=9092,
        help="of the first broker, the others follow; 0: any that are free (9092)",
    )
    add(
        "--host",
        default="127.0.0.1",
        help="where to listen, and what clients are told (%(default)s)",
    )
    add("--brokers", type=_number(1, _MOST_BROKERS), default=1, metavar="N", help="how many (1)")
    add(
        "--partitions",
        type=_number(1, _MOST_PARTITIONS),
        default=1,
        metavar="N",
        help="of topics for which no other number is said (1)",
    )
    add(
        "--topic",
        dest="topics",
        type=_topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS]",
        help="make this topic; may be repeated",
    )
    add(
        "--records",
        type=_number(0, _MOST_RECORDS),
        default=0,
        metavar="N",
        help="write so many orders (JSON) to each --topic that has none, to have something to read",
    )
    add(
        "--no-auto-create",
        action="store_true",
        help="do not make topics because somebody asks for them",
    )
    add("--data", metavar="FOLDER", help="keep all here; without it all is gone at the end")
    add(
        "--user",
        dest="users",
        type=_user,
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="clients must log in (SASL); may be repeated. Others can see it in the process list",
    )
    add(
        "--users-file",
        metavar="FILE",
        help="a file with a line NAME:PASSWORD for each; empty lines and #comments are skipped",
    )
    add(
        "--control",
        type=_number(0, _LAST_PORT),
        metavar="PORT",
        help="take commands by HTTP on this port of 127.0.0.1; 0: any that is free",
    )
    add("--verbose", action="store_true", help="log what happens to stderr")


def run(arguments: argparse.Namespace) -> int:
    """Run the cluster; 0 after Ctrl-C or SIGTERM. Raises CommandLineError if it can't start."""
    ended = _listen_for_the_end()
    users = _users(arguments)
    if arguments.records and not arguments.topics:
        raise CommandLineError("--records needs a --topic to write them to")
    last_port = arguments.port + arguments.brokers - 1
    if arguments.port and last_port > _LAST_PORT:
        raise CommandLineError(
            f"{arguments.brokers} brokers from port {arguments.port} on need ports up to "
            f"{last_port}, and the last one is {_LAST_PORT}"
        )
    with contextlib.ExitStack() as running:
        kafka, control = _start(arguments, users, running)
        _announce(arguments, kafka, control, users)
        _wait(ended)
    print("\nstopped" if arguments.data else "\nstopped, nothing is kept", flush=True)
    return 0


def _start(
    arguments: argparse.Namespace, users: dict[str, str] | None, running: contextlib.ExitStack
) -> tuple[EmbeddedKafka, ControlPort | None]:
    # Half a second of imports, which `--help` and mistakes need not wait for.
    from aktor.broker.embedded import EmbeddedKafka
    from aktor.broker.journal import DataFolderError
    from aktor.broker.server import PortInUseError
    from aktor.broker.settings import ClusterSettings

    _configure_logging(verbose=arguments.verbose)
    try:
        kafka = EmbeddedKafka(
            arguments.brokers,
            port=arguments.port or None,
            host=arguments.host,
            topics={name: count or arguments.partitions for name, count in arguments.topics},
            data=arguments.data,
            users=users,
            settings=ClusterSettings(
                partitions=arguments.partitions, auto_create_topics=not arguments.no_auto_create
            ),
        )
        running.enter_context(kafka)
        _fill(arguments, kafka)
        if arguments.control is None:
            return kafka, None
        from aktor.broker.control import ControlPort

        return kafka, running.enter_context(ControlPort(kafka, arguments.control))
    except (PortInUseError, DataFolderError, ValueError) as error:
        raise CommandLineError(str(error)) from None


def _fill(arguments: argparse.Namespace, kafka: EmbeddedKafka) -> None:
    if not arguments.records:
        return
    from aktor.broker import sample_records

    for name, _ in arguments.topics:
        partitions = kafka.status()["topics"][name]["partitions"]
        if not any(kafka.end_offset(name, one) for one in range(len(partitions))):
            sample_records.write(kafka, name, arguments.records)


def _announce(
    arguments: argparse.Namespace,
    kafka: EmbeddedKafka,
    control: ControlPort | None,
    users: dict[str, str] | None,
) -> None:
    for node_id in kafka.node_ids:
        print(f"broker {node_id} at {kafka.address(node_id)}")
    print(f"bootstrap_servers={kafka.bootstrap_servers}")
    if users is not None:
        print(f"users: {', '.join(users)} (SASL_PLAINTEXT; PLAIN, SCRAM-SHA-256, SCRAM-SHA-512)")
    if control is not None:
        print(f"control={control.url}")
    kept = f"what is in {arguments.data} is kept" if arguments.data else "nothing is kept"
    print(f"Ctrl-C stops it; {kept}", flush=True)


# -- the end


def _listen_for_the_end() -> queue.SimpleQueue[int]:
    """The queue that gets the first SIGINT or SIGTERM, which stops the cluster. A second one raises
    KeyboardInterrupt: it cuts off a stop that takes too long."""
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()  # its `put` may be called by a handler

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.default_int_handler)
        ended.put(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return ended


def _wait(ended: queue.SimpleQueue[int]) -> None:
    # With a timeout, since Windows delivers no signal to a thread that waits without one.
    while True:
        with contextlib.suppress(queue.Empty):
            ended.get(timeout=1.0)
            return


# -- what the arguments mean


def _number(least: int, greatest: int) -> Any:
    def number(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if not least <= value <= greatest:
            raise argparse.ArgumentTypeError(f"{text!r} is no number from {least} to {greatest}")
        return value

    return number


def _topic(text: str) -> tuple[str, int | None]:
    name, colon, count = text.partition(":")
    return name, _number(1, _MOST_PARTITIONS)(count) if colon else None


def _user(text: str) -> tuple[str, str]:
    name, _, password = text.partition(":")
    if not name or not password:  # what was given may be a password: it is not repeated
        raise argparse.ArgumentTypeError("a user is NAME:PASSWORD, and neither may be empty")
    return name, password


def _users(arguments: argparse.Namespace) -> dict[str, str] | None:
    """All users and their passwords; None if no login is needed. Raises CommandLineError."""
    users = dict(arguments.users)
    if arguments.users_file is None:
        return users or None
    try:
        with open(arguments.users_file, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise CommandLineError(f"users file {arguments.users_file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandLineError(f"users file {arguments.users_file} is not UTF-8") from None
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("#"):
            try:
                name, password = _user(line)
            except argparse.ArgumentTypeError as error:
                raise CommandLineError(
                    f"users file {arguments.users_file}, line {number}: {error}"
                ) from None
            users[name] = password
    if not users:
        raise CommandLineError(f"users file {arguments.users_file} names no user")
    return users


def _configure_logging(*, verbose: bool) -> None:
    import logging

    import structlog

    level = logging.DEBUG if verbose else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    logging.getLogger("aktor").setLevel(level)
    plain = structlog.dev.ConsoleRenderer(
        # Not rich's tracebacks, if rich is there: they show variables, passwords included.
        colors=sys.stderr.isatty(),
        exception_formatter=structlog.dev.plain_traceback,
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="%H:%M:%S", utc=False),
            plain,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
