"""`python -m tests.kafka.real`: a cluster in the foreground until Ctrl-C, or for one command."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from types import FrameType

from tests.kafka.real.cluster import KafkaCluster, KafkaClusterError
from tests.kafka.real.install import (
    KAFKA_VERSION,
    KafkaDownloadError,
    KafkaUnavailableError,
    what_is_missing,
)


def main() -> int:
    """Run the cluster; 0 after Ctrl-C or SIGTERM, 1 with one line if it can't be had."""
    arguments = _arguments()
    if arguments.missing:
        missing = what_is_missing()
        print(missing or "nothing is missing")
        return 1 if missing else 0
    # SIGTERM ends us the way Ctrl-C does, through the `with`; and a shell that starts us in the
    # background takes SIGINT from us, which we want back.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    cluster = KafkaCluster(
        arguments.nodes,
        port=arguments.port,
        security=arguments.security,
        settings=arguments.settings,
    )
    try:
        if arguments.prepare:
            cluster.prepare()
            return 0
        print(f"starting Apache Kafka {KAFKA_VERSION} ({arguments.nodes} broker/s) ...", flush=True)
        with cluster:
            if arguments.run:
                return _run([*arguments.run, "--bootstrap", ",".join(cluster.bootstrap_servers)])
            _announce(cluster)
            while len(cluster.running) == arguments.nodes:
                time.sleep(0.5)
            dead = set(cluster.node_ids) - cluster.running
            tails = "\n".join(cluster.log_tail(node_id) for node_id in sorted(dead))
            print(f"brokers {sorted(dead)} died:\n{tails}", file=sys.stderr)
            return 1
    except KeyboardInterrupt:
        print("\nstopped, data deleted")
        return 0
    except (KafkaUnavailableError, KafkaDownloadError, KafkaClusterError) as error:
        print(error, file=sys.stderr)
        return 1


def _run(command: Sequence[str]) -> int:
    """Run the command; its exit code. It is asked to end when we are, and the cluster waits for
    its end."""
    child = subprocess.Popen(command)

    def end(number: int, _frame: FrameType | None) -> None:
        # Ctrl-C in a terminal reaches the child without us.
        if number == signal.SIGTERM:
            child.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    return child.wait()


def _announce(cluster: KafkaCluster) -> None:
    print(f"bootstrap_servers={','.join(cluster.bootstrap_servers)}")
    if cluster.security:
        for listener in ("SASL_PLAINTEXT", "SASL_SSL", "SSL"):
            print(f"{listener.lower()}={cluster.address(listener)}")
        print(f"ca_file={cluster.ca_file}")
    print("Ctrl-C stops it and deletes its data", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.real", description=__doc__)
    parser.add_argument("--nodes", type=int, default=1, help="number of brokers (1)")
    parser.add_argument("--port", type=int, help="port of the first broker (any that is free)")
    parser.add_argument("--security", action="store_true", help="add SASL and TLS listeners")
    parser.add_argument("--prepare", action="store_true", help="fetch what is needed, then end")
    parser.add_argument("--missing", action="store_true", help="say what is missing, then end")
    parser.add_argument(
        "--set",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a line for server.properties; may be repeated",
    )
    parser.add_argument(
        "--run",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="run this command with --bootstrap HOST:PORT, then end with its exit code",
    )
    arguments = parser.parse_args()
    arguments.settings = dict(line.split("=", 1) for line in arguments.settings)
    return arguments


if __name__ == "__main__":
    sys.exit(main())
