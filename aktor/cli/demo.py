"""`aktor demo`: a consumer group at work; one member is killed and comes back."""

from __future__ import annotations

import argparse
from typing import Final

from aktor.cli.main import CommandLineError

__all__ = ["add_arguments", "run"]

_PARTITIONS: Final = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `aktor demo` takes."""
    add = parser.add_argument
    add(
        "--bootstrap",
        metavar="HOST:PORT[,..]",
        help="a Kafka that runs already (default: an embedded one)",
    )
    add("--seconds", type=float, default=20, help="write for so long at least (20)")
    add("--rate", type=int, default=1000, help="orders written per second (1000)")
    add("--members", type=int, default=3, help=f"consumers in the group, 2-{_PARTITIONS} (3)")
    protocol = parser.add_mutually_exclusive_group()
    protocol.add_argument("--eager", dest="cooperative", action="store_false", default=True)
    protocol.add_argument("--cooperative", action="store_true", help="the default")
    add("--plain", action="store_true", help="lines instead of the live view")


def run(arguments: argparse.Namespace) -> int:
    """Run the demo; 0 only if everything was as it must be. Raises CommandLineError if Kafka
    cannot be had."""
    if not 2 <= arguments.members <= _PARTITIONS:
        raise CommandLineError(
            f"--members must be from 2 (one is killed) to {_PARTITIONS} (partitions)"
        )
    if arguments.seconds <= 0 or arguments.rate <= 0:
        raise CommandLineError("--seconds and --rate must be more than 0")
    from aktor.demo import show
    from aktor.demo.cluster import ClusterError
    from aktor.demo.director import Plot

    plot = Plot(
        seconds=arguments.seconds,
        rate=arguments.rate,
        members=arguments.members,
        partitions=_PARTITIONS,
        cooperative=arguments.cooperative,
    )
    try:
        return show.run(plot, arguments.bootstrap, plain=arguments.plain)
    except ClusterError as error:
        raise CommandLineError(str(error)) from None
