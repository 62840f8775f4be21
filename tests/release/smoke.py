"""Whether an installed aktor works: python smoke.py [--reader compiled|Python].

For an environment without pytest and without this repository: a release is tried in it, once per
Python and platform. An embedded cluster is started; both group protocols read all records of a
topic, commit, and go on behind what was committed; consumers of asyncio read and process them; the
same records are read as columns where pyarrow is installed. Exits with 1, and says why, if anything
is not as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import importlib.util
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

from kafka import KafkaProducer

import aktor
from aktor import KafkaConsumer, TopicPartition, aio
from aktor.broker import EmbeddedKafka

RECORDS = 1000
PARTITIONS = 3

#: For what hangs: 10 s were too few for a first record on a machine with a load of 30.
PATIENCE_MS = 60_000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reader", choices=["compiled", "Python"], help="the one that is expected")
    expected = parser.parse_args().reader
    print(f"aktor {aktor.__version__} in {Path(aktor.__file__).parent}")
    print(f"Python {platform.python_version()}, {sysconfig.get_platform()}")
    print(f"kafka-python {importlib.metadata.version('kafka-python')}")
    command = [sys.executable, "-m", "aktor.cli", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    check(aktor.__version__ in told, f"`aktor --version` said {told!r}")
    with EmbeddedKafka(brokers=2, topics={"orders": PARTITIONS}) as kafka:
        servers = kafka.bootstrap_servers
        written = write(servers)
        for protocol in ("classic", "consumer"):
            read_in_group(servers, protocol, written, expected)
        asyncio.run(read_by_asyncio(servers, written))
        read_columns(servers, written)
    if hasattr(sys, "_is_gil_enabled"):
        free = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
        check(not free or not sys._is_gil_enabled(), "a compiled module has enabled the GIL")
        print(f"the GIL is {'enabled' if sys._is_gil_enabled() else 'disabled'}")
    print("smoke: passed")


def check(right: bool, wrong: str) -> None:
    """End with `wrong` unless it is `right`. (`assert` does nothing under `python -O`.)"""
    if not right:
        sys.exit(f"smoke: FAILED: {wrong}")


def write(servers: list[str]) -> dict[tuple[int, int], bytes]:
    """Write records, some of them compressed; their values by partition and offset."""
    written = {}
    for codec in (None, "gzip"):
        producer = KafkaProducer(bootstrap_servers=servers, compression_type=codec)
        sent = []
        for number in range(RECORDS // 2):
            value = b"%r %d" % (codec, number)
            headers = [("number", b"%d" % number)]
            sent.append(
                (value, producer.send("orders", value, key=b"%d" % number, headers=headers))
            )
        producer.flush()
        for value, future in sent:
            told = future.get(timeout=PATIENCE_MS / 1000)
            written[told.partition, told.offset] = value
        producer.close()
    check(len(written) == RECORDS, f"{len(written)} of {RECORDS} records were written")
    return written


def read_in_group(
    servers: list[str], protocol: str, written: dict[tuple[int, int], bytes], expected: str | None
) -> None:
    """Read the first half by `poll` and the second by iteration, in two members of one group."""
    settings = {
        "bootstrap_servers": servers,
        "group_id": f"billing-{protocol}",
        "group_protocol": protocol,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "consumer_timeout_ms": PATIENCE_MS,
    }
    read: dict[tuple[int, int], bytes] = {}
    with KafkaConsumer("orders", **settings) as consumer:
        while len(read) < RECORDS // 2:
            polled = consumer.poll(timeout_ms=PATIENCE_MS, max_records=100)
            check(bool(polled), f"{protocol}: no record came within {PATIENCE_MS} ms")
            for records in polled.values():
                read |= {(one.partition, one.offset): one.value for one in records}
        consumer.commit()
        status = consumer.status()
    check(f"reader: {expected or ''}" in str(status), f"the reader is not {expected}:\n{status}")
    with KafkaConsumer("orders", **settings) as consumer:
        for record in consumer:
            again = (record.partition, record.offset) in read
            check(not again, f"{protocol}: {record} came again behind the commit")
            read[record.partition, record.offset] = record.value
            if len(read) == RECORDS:
                break
    check(read == written, f"{protocol}: what was read is not what was written")
    print(f"{protocol}: {len(read)} records")


async def read_by_asyncio(servers: list[str], written: dict[tuple[int, int], bytes]) -> None:
    """Read a half by `getmany` and the other one by iteration, commit; then `process` reads all."""
    settings = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    settings |= {"enable_auto_commit": False, "consumer_timeout_ms": 3000}
    read: dict[tuple[int, int], bytes] = {}
    async with asyncio.timeout(60), aio.KafkaConsumer("orders", group_id="aio", **settings) as one:
        while len(read) < RECORDS // 2:
            for records in (await one.getmany(timeout_ms=10_000, max_records=100)).values():
                read |= {(record.partition, record.offset): record.value for record in records}
        async for record in one:
            read[record.partition, record.offset] = record.value
            if len(read) == RECORDS:
                break
        await one.commit()
        committed = [await one.committed(partition) for partition in one.assignment()]
    check(read == written, "asyncio: what was read is not what was written")
    check(sum(map(int, committed)) == RECORDS, f"asyncio: {committed} was committed")

    async def handle(record: aio.ConsumerRecord) -> None:
        await asyncio.sleep(0)

    settings["group_id"] = "aio-2"
    async with asyncio.timeout(60), aio.KafkaConsumer("orders", **settings) as two:
        done = await two.process(handle, concurrency=50)
    check(done.finished == RECORDS, f"asyncio: {done}")
    print(f"asyncio: {len(read)} records")


def read_columns(servers: list[str], written: dict[tuple[int, int], bytes]) -> None:
    if importlib.util.find_spec("pyarrow") is None:
        print("columns: left out, there is no pyarrow")
        return
    with KafkaConsumer(bootstrap_servers=servers) as consumer:
        consumer.assign([TopicPartition("orders", number) for number in range(PARTITIONS)])
        table = consumer.to_table(start="earliest", end="latest", timeout_ms=30_000)
    columns = [table[name].to_pylist() for name in ("partition", "offset", "value")]
    read = {(one, offset): value for one, offset, value in zip(*columns, strict=True)}
    check(read == written, "what the columns hold is not what was written")
    print(f"columns: {len(read)} records")


if __name__ == "__main__":
    main()
