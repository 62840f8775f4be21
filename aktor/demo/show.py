"""The show: one run of the demo on a Kafka, and its exit code."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from aktor.broker import EmbeddedKafka
from aktor.demo.board import Board
from aktor.demo.cluster import Cluster
from aktor.demo.director import Director, Plot
from aktor.demo.plain import PlainView
from aktor.demo.referee import Referee, Verdict
from aktor.demo.summary import summary
from aktor.demo.view import View

__all__ = ["ALL_WELL", "INTERRUPTED", "SOMETHING_WRONG", "run"]

ALL_WELL, SOMETHING_WRONG, INTERRUPTED = 0, 1, 130


def run(plot: Plot, bootstrap: str | None = None, *, plain: bool = False) -> int:
    """Run the demo on the Kafka at `bootstrap`, or on an embedded one if that is None.

    0: all well; 1: something was wrong; 130: interrupted. Raises ClusterError without a Kafka.
    """
    # SIGTERM ends us the way Ctrl-C does, through every `finally`; and a shell that starts us in
    # the background takes SIGINT from us, which we want back.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        with _kafka(bootstrap) as servers:
            verdict = _play(plot, servers, plain=plain, clean_up=bootstrap is not None)
        return SOMETHING_WRONG if verdict.faults else ALL_WELL
    except KeyboardInterrupt:
        print("\ninterrupted; all processes have ended", file=sys.stderr)
        return INTERRUPTED


def _play(plot: Plot, bootstrap: Sequence[str], *, plain: bool, clean_up: bool) -> Verdict:
    cluster = Cluster(bootstrap)
    name = f"aktor-demo-{uuid.uuid4().hex[:6]}"
    referee = Referee(plot.partitions)
    protocol = "cooperative" if plot.cooperative else "eager"
    board = Board(referee, topic=f"{name}-orders", group=name, protocol=protocol)
    view = _view(plain=plain)
    try:
        cluster.create_topic(board.topic, plot.partitions)
        try:
            with view:
                lag = Director(plot, cluster, board, view).play()
                view.refresh(board)
        finally:
            left = cluster.clean_up(board.group, board.topic) if clean_up else []
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
        from aktor.demo.live import LiveView
    except ModuleNotFoundError:
        print("The live view needs rich: pip install 'aktor[demo]'. Here is the plain one.")
        return PlainView()
    return LiveView()


@contextmanager
def _kafka(bootstrap: str | None) -> Iterator[Sequence[str]]:
    """The addresses of the user's Kafka, or of one of our own for as long as the block runs."""
    if bootstrap is not None:
        yield bootstrap.split(",")
        return
    with EmbeddedKafka() as kafka:
        print("on an embedded Kafka, in this process (--bootstrap: another Kafka)", flush=True)
        yield kafka.bootstrap_servers.split(",")
