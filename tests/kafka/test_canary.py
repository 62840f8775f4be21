"""A secret that is given to a consumer is in nothing that the consumer says: logs, errors with
their tracebacks and pickles, status, why, trace files, sentences, tables and pictures."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aktor import KafkaConsumer
from aktor.broker.embedded import EmbeddedKafka
from aktor.cli.main import main
from aktor.consumer.configuration.table import SETTINGS
from aktor.trace.file import trace_file
from tests.gate import all_but_the_first

pytestmark = pytest.mark.embedded("what a client says of its secrets is the same at a real one")

CANARY = "c4nary/5ecret+91x"

#: Names of settings that may hold a secret.
SECRETIVE = re.compile("password|secret|proxy|jaas|bootstrap_servers")


def sasl(mechanism: str, **more: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        **more,
    }


#: Settings that hold it, by the address of the cluster. (`test_security` and
#: `tests/unit/actors/sockets` have tokens, which the embedded Kafka does not take.)
GIVEN: dict[str, Callable[[str], dict[str, Any]]] = {
    "PLAIN": lambda _: sasl("PLAIN", sasl_plain_password=CANARY),
    "a proxy": lambda _: {"proxy_url": f"socks5://joe:{quote(CANARY, safe='')}@127.0.0.1:1"},
    "SCRAM": lambda _: sasl("SCRAM-SHA-256", sasl_plain_password=CANARY),
    "an HTTP proxy": lambda _: {"proxy_url": f"http://joe:{quote(CANARY, safe='')}@127.0.0.1:1"},
    "an old name": lambda _: {"socks5_proxy": f"socks5://joe:{quote(CANARY, safe='')}@127.0.0.1:1"},
    "a key's password": lambda _: {
        "security_protocol": "SSL",
        "ssl_password": CANARY,
        "ssl_certfile": __file__,
        "ssl_keyfile": __file__,
    },
    "Java's name": lambda _: {"sasl_jaas_config": f'x required username="a" password="{CANARY}";'},
    "in an address": lambda address: {
        "bootstrap_servers": f"joe:{quote(CANARY, safe='')}@{address}"
    },
}

#: As it may be written, also in part.
FORMS = (
    CANARY[:6],
    CANARY,
    quote(CANARY, safe=""),
    json.dumps(CANARY)[1:-1],
    *(base64.b64encode(text.encode()).decode() for text in (CANARY, f"alice:{CANARY}")),
    base64.b64encode(f"\0alice\0{CANARY}".encode()).decode(),
    base64.b64encode(f"alice\0alice\0{CANARY}".encode()).decode(),
    CANARY.encode().hex(),
)


@pytest.fixture(scope="module")
def locked() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(users={"alice": "another one"}, topics={"orders": 2}) as kafka:
        yield kafka


class Said:
    """What was said, and where."""

    def __init__(self) -> None:
        self.by_place: dict[str, str] = {}

    def note(self, place: str, text: object) -> None:
        self.by_place[place] = self.by_place.get(place, "") + str(text)

    def note_error(self, place: str, error: BaseException) -> None:
        told = traceback.format_exception(error)
        self.note(place, "".join(told) + repr(error) + repr(error.args) + repr(vars(error)))
        self.note(f"{place}, pickled", pickle.dumps(error))

    def note_consumer(self, consumer: KafkaConsumer) -> None:
        status = consumer.status()
        for place, value in {
            "why": consumer.why(),
            "status": f"{status} {status!r}",
            "status, pickled": pickle.dumps(status),
            "repr": f"{consumer} {consumer!r}",
            "config": f"{consumer.config} {json.dumps(consumer.config, default=repr)}",
            "config, pickled": pickle.dumps(dict(consumer.config)),
            "metrics": consumer.metrics(),
            "rebalances": consumer.rebalances,
            "metadata": consumer.group_metadata(),
            "attributes": vars(consumer),
        }.items():
            self.note(place, value)

    @property
    def leaks(self) -> list[str]:
        return [place for place, text in self.by_place.items() if any(one in text for one in FORMS)]


@pytest.mark.parametrize("what", all_but_the_first(3, GIVEN))
def test_a_secret_is_in_nothing_that_is_said(
    what: str,
    locked: EmbeddedKafka,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    monkeypatch.setenv("AKTOR_TRACE", str(logs / "trace.jsonl"))
    caplog.set_level(logging.DEBUG)
    address = locked.bootstrap_servers.split(",")[0]
    settings = {"bootstrap_servers": address, **GIVEN[what](address)}
    said = Said()
    try:
        consumer = KafkaConsumer("orders", group_id="g", bootstrap_timeout_ms=0, **settings)
    except Exception as error:
        said.note_error("the constructor", error)
    else:
        consumer.on_event(lambda event: said.note("events", event), level="debug")
        until = time.monotonic() + 3.0
        while "poll" not in said.by_place and time.monotonic() < until:
            try:
                consumer.poll(300)
            except Exception as error:
                said.note_error("poll", error)
        said.note_consumer(consumer)
        consumer.close(autocommit=False)
        said.note("a closed one", f"{consumer!r} {consumer.status()}")
    trace_file(str(logs / "trace.jsonl")).flush()
    if (logs / "trace.jsonl").exists():
        said.note("the trace", (logs / "trace.jsonl").read_text())
    # (The pictures are made of the same rows whatever the settings are.)
    drawn = ["--html", str(tmp_path / "w.html"), "--svg", str(tmp_path / "svg")]
    main(["why", str(logs), *(drawn if what == "PLAIN" else [])])
    main(["why", str(logs), "--json"])
    printed = capsys.readouterr()
    said.note("printed", printed.out + printed.err)
    for file in (*tmp_path.glob("*.html"), *tmp_path.glob("svg/*")):
        said.note(file.name, file.read_text())
    for one in caplog.records:
        said.note("the log", f"{one.getMessage()} {one.__dict__}")

    assert said.leaks == []
    assert {"the constructor", "poll", "why"} & set(said.by_place)


def test_each_setting_that_may_hold_a_secret_is_tried() -> None:
    tried = {name for given in GIVEN.values() for name in given("b:9092")}

    assert {name for name in SETTINGS if SECRETIVE.search(name)} <= tried
