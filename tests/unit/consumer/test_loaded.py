"""Modules that are loaded late, and a signal handler that comes meanwhile."""

from __future__ import annotations

import _thread
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aktor.consumer import loaded
from aktor.consumer.loaded import Loaded

#: A program with a consumer that was never asked; `meanwhile` is called once, in the middle of the
#: import of the module that is named.
PROGRAM = """
import importlib.abc, os, signal, sys, threading, time
from {library} import KafkaConsumer

options = {{}} if "{library}" == "aktor.aio" else {{"bootstrap_timeout_ms": 0}}
consumer = KafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="g", **options)
begun, told = threading.Event(), []

def ask(*_):
    begun.set()
    try:
        told.append({ask})
    except BaseException as error:
        told.append(repr(error))

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "{module}" and not begun.is_set():
            meanwhile()
            begun.wait(5)
            time.sleep(0.1)

def meanwhile():
    {meanwhile}

signal.signal(signal.SIGUSR1, ask)
sys.meta_path.insert(0, Finder())
"""

SIGNAL = "os.kill(os.getpid(), signal.SIGUSR1)"


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("library", ["aktor", "aktor.aio"])
@pytest.mark.parametrize(
    ("ask", "module"),
    [
        ("consumer.why()", "aktor.consumer.present.health"),
        ("str(consumer.status())", "aktor.consumer.present.reasons.sentence"),
        ("consumer.rebalances", "aktor.trace.rebalances.rows"),
    ],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no such signals")
def test_a_signal_handler_may_ask_while_the_first_call_loads_its_modules(
    ask: str, module: str, library: str
) -> None:
    program = PROGRAM.format(library=library, ask=ask, module=module, meanwhile=SIGNAL)
    said = run(f"{program}\nfirst = {ask}\nprint(len(told), 'Error' in repr(told), type(first))")

    kind = "list" if ask == "consumer.rebalances" else "str"
    assert said == f"1 False <class '{kind}'>"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_of_a_process_that_forks_while_modules_are_loaded_has_them() -> None:
    program = PROGRAM.format(
        library="aktor",
        ask="os.fork()",
        module="aktor.consumer.present.health",
        meanwhile=SIGNAL,
    )
    said = run(
        f"{program}\nconsumer.why()\n"
        "if told[0]:\n    assert os.waitpid(told[0], 0)[1] == 0\n    print('parent')\n"
        "else:\n    assert 'is a fork' in consumer.why()\n    os._exit(0)"
    )

    assert said == "parent"


def test_it_is_loaded_once_and_not_on_the_thread_that_asks() -> None:
    threads: list[int] = []

    def load() -> str:
        threads.append(threading.get_ident())
        return "it"

    late = Loaded(load)

    assert [late(), late()] == ["it", "it"]
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()


def no_thread(*_: Any) -> int:
    raise RuntimeError("can't start new thread")


def lost_thread(*_: Any) -> int:
    """It is started, and never runs."""
    return 1


@pytest.mark.parametrize("start", [no_thread, lost_thread])
def test_without_a_thread_who_asks_loads_it(
    start: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_thread, "start_new_thread", start)
    monkeypatch.setattr(loaded, "LOADED_WITHIN", 0.01)
    late = Loaded(threading.get_ident)

    assert late() == threading.get_ident()


def test_when_the_interpreter_ends_no_thread_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "is_finalizing", lambda: True)
    monkeypatch.setattr(_thread, "start_new_thread", None)

    assert Loaded(threading.get_ident)() == threading.get_ident()


def test_an_import_that_fails_is_told_to_who_asks_and_tried_again() -> None:
    answers: list[Any] = [ImportError("no file"), ImportError("no file"), "it"]

    def load() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    late = Loaded(load)
    with pytest.raises(ImportError, match="no file"):
        late()

    assert late() == "it"
