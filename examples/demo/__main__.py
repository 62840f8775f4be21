"""`python -m examples.demo`: runs the demo; exit code 0 only if everything was as it must be."""

from __future__ import annotations

import argparse
import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aktor.broker import EmbeddedKafka
from examples.demo.board import Board
from examples.demo.cluster import Cluster, ClusterError
from examples.demo.director import Director, Plot
from examples.demo.plain import PlainView
from examples.demo.referee import Referee, Verdict
from examples.demo.summary import summary
from examples.demo.view import View

PARTITIONS = 12

ALL_WELL, SOMETHING_WRONG, NO_KAFKA, INTERRUPTED = 0, 1, 2, 130


def main() -> int:
    """Run the demo. 0: all well; 1: something was wrong; 2: no Kafka; 130: interrupted."""
    arguments = _arguments()
    # SIGTERM ends us the way Ctrl-C does, through every `finally`; and a shell that starts us in
    # the background takes SIGINT from us, which we want back.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with _kafka(arguments) as bootstrap:
            verdict = _run(arguments, bootstrap)
        return SOMETHING_WRONG if verdict.faults else ALL_WELL
    except KeyboardInterrupt:
        print("\ninterrupted; all processes have ended", file=sys.stderr)
        return INTERRUPTED
    except ClusterError as error:
        print(error, file=sys.stderr)
        return NO_KAFKA


def _run(arguments: argparse.Namespace, bootstrap: Sequence[str]) -> Verdict:
    plot = Plot(
        seconds=arguments.seconds,
        rate=arguments.rate,
        members=arguments.members,
        partitions=PARTITIONS,
        cooperative=arguments.cooperative,
    )
    cluster = Cluster(bootstrap)
    name = f"aktor-demo-{uuid.uuid4().hex[:6]}"
    referee = Referee(PARTITIONS)
    protocol = "cooperative" if plot.cooperative else "eager"
    board = Board(referee, topic=f"{name}-orders", group=name, protocol=protocol)
    view = _view(plain=arguments.plain)
    try:
        cluster.create_topic(board.topic, PARTITIONS)
        try:
            with view:
                lag = Director(plot, cluster, board, view).play()
                view.refresh(board)
        finally:
            left = cluster.clean_up(board.group, board.topic) if arguments.bootstrap else []
            if left:
                print(f"could not be deleted: {', '.join(left)}", file=sys.stderr)
    finally:
        cluster.close()
    verdict = referee.verdict(lag)
    view.summary(summary(verdict))
    return verdict


def _view(*, plain: bool) -> View:
    if plain or not sys.stdout.isatty():
        return PlainView()
    try:
        from examples.demo.live import LiveView
    except ModuleNotFoundError:
        print("the live view needs rich (pip install rich); here is the plain one")
        return PlainView()
    return LiveView()


@contextmanager
def _kafka(arguments: argparse.Namespace) -> Iterator[Sequence[str]]:
    """The addresses of the user's Kafka, or of one of our own for as long as the block runs."""
    if arguments.bootstrap:
        yield arguments.bootstrap.split(",")
    else:
        with EmbeddedKafka() as kafka:
            print("on an embedded Kafka, in this process (--bootstrap: another Kafka)", flush=True)
            yield kafka.bootstrap_servers.split(",")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo",
        description="A consumer group at work; one member is killed and comes back.",
    )
    parser.add_argument("--bootstrap", metavar="HOST:PORT[,..]", help="a Kafka that runs already")
    parser.add_argument("--seconds", type=float, default=20, help="write for so long at least (20)")
    parser.add_argument("--rate", type=int, default=1000, help="orders written per second (1000)")
    parser.add_argument("--members", type=int, default=3, help="consumers in the group, 2-12 (3)")
    protocol = parser.add_mutually_exclusive_group()
    protocol.add_argument("--eager", dest="cooperative", action="store_false", default=True)
    protocol.add_argument("--cooperative", action="store_true", help="the default")
    parser.add_argument("--plain", action="store_true", help="lines instead of the live view")
    arguments = parser.parse_args()
    if not 2 <= arguments.members <= PARTITIONS:
        parser.error(f"--members must be from 2 (one is killed) to {PARTITIONS} (partitions)")
    if arguments.seconds <= 0 or arguments.rate <= 0:
        parser.error("--seconds and --rate must be more than 0")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
