"""`python -m tests.kafka.recorded`: record what a real Kafka says, or hold a cluster against it."""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from typing import Any

from tests.kafka.recorded import record
from tests.kafka.recorded.scenarios import all_scenarios
from tests.kafka.recorded.world import Scenario

#: A scenario that takes longer than this waits for something it should not.
SLOW_S = 1.5


def main() -> int:
    """Record, or compare; 0 if all went well, 1 if something differs or failed."""
    arguments = _arguments()
    scenarios = [
        each
        for each in all_scenarios(*arguments.modules)
        if not arguments.only or arguments.only in each.name
    ]
    with _cluster(arguments.at, embedded=arguments.embedded) as address:
        if arguments.show:
            return _show(scenarios, address)
        if arguments.record:
            return _record(scenarios, address)
        return _compare(scenarios, address)


def _record(scenarios: Sequence[Scenario], address: str) -> int:
    """Run everything twice, and write down what was the same both times."""
    bad = 0
    stable: dict[str, dict[str, Any]] = {}
    for each in scenarios:
        try:
            began = time.monotonic()
            first, second = each.run(address), each.run(address)
            if (took := (time.monotonic() - began) / 2) > SLOW_S:
                print(f"SLOW {each.module}.{each.name}: {took:.1f} s", flush=True)
        except Exception:
            bad += 1
            print(f"FAILED {each.module}.{each.name}\n{traceback.format_exc()}", flush=True)
            continue
        if lines := record.differences(first, second):
            bad += 1
            print(f"UNSTABLE {each.module}.{each.name}", *lines, sep="\n    ", flush=True)
            continue
        stable.setdefault(each.module, {})[each.name] = second
    for module in {each.module for each in scenarios}:
        there = {each.name for each in all_scenarios(module)}
        known = {name: notes for name, notes in record.read(module).items() if name in there}
        record.write(module, known | stable.get(module, {}))
    print(f"{sum(map(len, stable.values()))} scenarios recorded, {bad} not")
    return 1 if bad else 0


def _compare(scenarios: Sequence[Scenario], address: str) -> int:
    bad = 0
    for each in scenarios:
        try:
            lines = record.differences(record.read(each.module).get(each.name), each.run(address))
        except Exception:
            lines = traceback.format_exc(limit=-3).splitlines()
        if lines:
            bad += 1
            print(f"{each.module}.{each.name}", *lines, sep="\n    ", flush=True)
    print(f"{len(scenarios)} scenarios, {bad} differ")
    return 1 if bad else 0


def _show(scenarios: Sequence[Scenario], address: str) -> int:
    for each in scenarios:
        print(record.pretty({each.name: each.run(address)}))
    return 0


@contextlib.contextmanager
def _cluster(address: str | None, *, embedded: bool) -> Iterator[str]:
    if address:
        yield address
        return
    if embedded:
        from tests.kafka.recorded.embedded import embedded_kafka

        with embedded_kafka() as broker:
            yield broker.address(1)
        return
    from tests.kafka.real import KafkaCluster

    with KafkaCluster(settings=record.SETTINGS) as cluster:
        yield cluster.bootstrap_servers[0]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.recorded", description=__doc__)
    parser.add_argument("modules", nargs="*", help="modules of scenarios (all)")
    parser.add_argument("--only", help="scenarios with this in their name")
    parser.add_argument("--at", metavar="HOST:PORT", help="a cluster that runs already")
    parser.add_argument("--embedded", action="store_true", help="the embedded cluster")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--record", action="store_true", help="write what the cluster says")
    what.add_argument("--show", action="store_true", help="print what the cluster says")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
