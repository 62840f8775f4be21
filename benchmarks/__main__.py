"""`python -m benchmarks [name ...]`: measure, and print each table as soon as it is measured.

What is measured meanwhile is said on stderr.

python -m benchmarks                     all, about half an hour
python -m benchmarks messages poll       these
python -m benchmarks --markdown          the tables as docs/benchmarks.md has them
python -m benchmarks --rows 500000       as many records in a topic at most, for less time
python -m benchmarks --quick             only show that they run
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import platform
import sys
import time
from typing import Final

from benchmarks.site import Site
from tests.kafka.real import KafkaClusterError, KafkaDownloadError, KafkaUnavailableError

#: Each is a module here with `tables(site)`, a list of tables or a generator of them.
BENCHMARKS: Final = (
    "messages",
    "decode",
    "poll",
    "looking",
    "throughput",
    "where",
    "spark",
    "spark_sink",
    "spark_json",
    "spark_avro",
    "spark_available_now",
    "process",
    "idle",
    "imports",
    "aio",
    "first_record",
    "handover",
    "protocols",
    "memory",
    "partitions",
    "embedded",
    "simulation",
)


def main() -> int:
    """0 when all were measured, 1 if there is no Kafka."""
    arguments = _arguments()
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {time.strftime('%F %R')}\n")
    try:
        with Site(arguments.bootstrap, quick=arguments.quick, rows=arguments.rows) as site:
            for name in arguments.names or BENCHMARKS:
                _measure(name, site, markdown=arguments.markdown)
    except (KafkaUnavailableError, KafkaDownloadError, KafkaClusterError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    return 0


def _measure(name: str, site: Site, *, markdown: bool) -> None:
    before, start = _load(), time.monotonic()
    for table in importlib.import_module(f"benchmarks.{name}").tables(site):
        print(table.markdown() if markdown else table.text(), flush=True)
    took = time.monotonic() - start
    print(f"load average {before} before, {_load()} after, {took:.0f} s\n", flush=True)


def _load() -> str:
    return f"{os.getloadavg()[0]:.1f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(BENCHMARKS))
    parser.add_argument("--bootstrap", help="host:port of a Kafka to use instead of our own")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--rows", type=int, help="at most so many records in a topic")
    parser.add_argument("--quick", action="store_true", help="tiny amounts, worthless figures")
    arguments = parser.parse_args()
    for name in arguments.names:
        if name not in BENCHMARKS:
            parser.error(f"there is no benchmark {name!r}, only {', '.join(BENCHMARKS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
