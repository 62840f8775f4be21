"""`aktor` gives its names when they are asked for, and what is light stays light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import aktor


def test_every_public_name_is_there() -> None:
    assert all(getattr(aktor, name) is not None for name in aktor.__all__)
    assert set(aktor.__all__) <= set(dir(aktor))


def test_other_names_are_not() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'KafkaConsumers'"):
        aktor.KafkaConsumers  # noqa: B018


@pytest.mark.parametrize("module", ["aktor", "aktor.testing.plugin", "aktor.cli.main"])
def test_what_everybody_waits_for_imports_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print({{'kafka', 'pykka', 'structlog'}} & set(sys.modules))"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "set()\n", run.stderr


@pytest.mark.parametrize("before", ["enable", "disable"])
def test_the_import_is_not_held_up_by_the_garbage_collector_and_leaves_it_as_it_was(
    before: str,
) -> None:
    program = f"""
import gc, aktor
gc.{before}()
begun = []
gc.callbacks.append(lambda phase, info: begun.append(phase))
aktor.KafkaConsumer
gc.callbacks.clear()
print(len(begun), gc.isenabled())
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    count, enabled = run.stdout.split()
    assert int(count) <= 6, run.stderr  # hundreds else
    assert enabled == str(before == "enable")
