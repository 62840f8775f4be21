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
