"""The fixtures: who asks for a cluster gets the one that was described, and nobody else's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import aktor.broker.embedded  # so that the pytests inside need not import it each anew
from tests.gate import all_but_the_first

__all__ = ["aktor"]

pytest_plugins = ["pytester"]

#: The plugin by its module, whether or not it is installed as the entry point `aktor`.
PLUGIN = ("-p", "no:aktor", "-p", "aktor.testing.plugin")

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have nothing to do here, and take time."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def outcomes(pytester: pytest.Pytester, source: str) -> dict[str, int]:
    """Run a test module in a pytest of its own."""
    pytester.makepyfile(source)
    return pytester.runpytest(*PLUGIN, "--strict-markers").parseoutcomes()


def test_each_test_has_a_cluster_of_its_own(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        @pytest.mark.parametrize("time", [1, 2])
        def test_there_is_nothing_at_first(embedded_kafka, time):
            assert embedded_kafka.status()["topics"] == {}
            embedded_kafka.create_topic("orders")
    """

    assert outcomes(pytester, source) == {"passed": 2}


def test_the_marker_says_what_the_cluster_is_like_and_the_closest_one_wins(
    pytester: pytest.Pytester,
) -> None:
    source = """
        import pytest

        pytestmark = pytest.mark.embedded_kafka(brokers=3, topics={"orders": 4})

        def test_of_the_module(embedded_kafka):
            assert embedded_kafka.node_ids == (1, 2, 3)
            assert len(embedded_kafka.status()["topics"]["orders"]["partitions"]) == 4

        @pytest.mark.embedded_kafka(brokers=2)
        def test_of_its_own(embedded_kafka):
            assert embedded_kafka.node_ids == (1, 2)
            assert "orders" in embedded_kafka.status()["topics"]
    """

    assert outcomes(pytester, source) == {"passed": 2}


def test_a_module_can_say_it_for_all_its_tests(pytester: pytest.Pytester) -> None:
    source = """
        import pytest

        @pytest.fixture(scope="module")
        def embedded_kafka_settings():
            return {"topics": ["orders"], "settings": {"auto_create_topics": False}}

        def test_what_the_module_says(embedded_kafka):
            assert list(embedded_kafka.status()["topics"]) == ["orders"]

        @pytest.mark.embedded_kafka(topics=["others"])
        def test_a_marker_wins(embedded_kafka):
            assert list(embedded_kafka.status()["topics"]) == ["others"]
    """

    assert outcomes(pytester, source) == {"passed": 2}


def test_the_cluster_of_the_session_is_one_for_all(pytester: pytest.Pytester) -> None:
    source = """
        def test_one(embedded_kafka_cluster):
            embedded_kafka_cluster.create_topic("orders")

        def test_two(embedded_kafka_cluster, embedded_kafka):
            assert "orders" in embedded_kafka_cluster.status()["topics"]
            assert "orders" not in embedded_kafka.status()["topics"]
    """

    assert outcomes(pytester, source) == {"passed": 2}


def test_the_cluster_is_stopped_after_a_test_that_failed(pytester: pytest.Pytester) -> None:
    source = """
        kept = []

        def test_that_fails(embedded_kafka):
            kept.append(embedded_kafka)
            assert False

        def test_after_it():
            assert repr(kept[0]) == "<EmbeddedKafka stopped>"
    """

    assert outcomes(pytester, source) == {"passed": 1, "failed": 1}


@pytest.mark.parametrize(
    ("marker", "complaint"),
    [
        ("3", "*takes arguments by name, as brokers=3, not 3*"),
        ("broker=3", "*unexpected keyword argument 'broker'*"),
        ("brokers=0", "*a cluster has at least one*"),
    ],
)
def test_a_marker_that_makes_no_sense_says_so(
    pytester: pytest.Pytester, marker: str, complaint: str
) -> None:
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.embedded_kafka({marker})
        def test_it(embedded_kafka):
            pass
        """
    )

    result = pytester.runpytest(*PLUGIN)

    assert result.parseoutcomes() == {"errors": 1}
    result.stdout.fnmatch_lines([complaint])


def test_the_marker_is_listed(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest(*PLUGIN, "--markers")

    result.stdout.fnmatch_lines(["@pytest.mark.embedded_kafka(brokers=1, *"])


@pytest.mark.parametrize(
    ("example", "count"),
    all_but_the_first(1, [("testing_your_loop", 4), ("simulating_your_loop", 6)]),
)
def test_the_example_of_a_tested_loop_passes(example: str, count: int) -> None:
    run = subprocess.run(
        # Our own settings have one of pytest-timeout; that of Hypothesis is left out.
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            *PLUGIN,
            "-p",
            "pytest_timeout",
            "-o",
            "addopts=",
            f"examples/{example}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert f"{count} passed" in run.stdout, run.stdout + run.stderr
