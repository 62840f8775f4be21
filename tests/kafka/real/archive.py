"""A class-data archive: brokers that use it start in half the time and with less memory.

Java writes it when a broker that ran with `-XX:ArchiveClassesAtExit` ends in good order, so one
throw-away broker is run for it, once per machine.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kafka.real.install import Distribution, exclusive


def class_archive(
    kafka: Distribution, run_once: Callable[[tuple[str, ...]], None]
) -> tuple[str, ...]:
    """The JVM flags that use the archive of `kafka`; none if Java refused to make it.

    `run_once(flags)` runs a broker with additional JVM flags from start to orderly stop.
    """
    archive = kafka.cache / f"classes-{_fingerprint(kafka)}.jsa"
    if not archive.exists():
        with exclusive(kafka.cache / "archive.lock"):
            if not archive.exists():
                _make(archive, run_once)
    if archive.stat().st_size == 0:
        return ()
    return (f"-XX:SharedArchiveFile={archive}",)


def _make(archive: Path, run_once: Callable[[tuple[str, ...]], None]) -> None:
    """Leaves an empty file where it fails, so that it is tried once and not at every start."""
    print("preparing Kafka for quick starts (once)", file=sys.stderr)
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    run_once((f"-XX:ArchiveClassesAtExit={unfinished}",))
    unfinished.touch()
    os.replace(unfinished, archive)


def _fingerprint(kafka: Distribution) -> str:
    """An archive is good for one build of Java and one class path."""
    return hashlib.sha256(f"{kafka.java.version}{kafka.classpath}".encode()).hexdigest()[:8]
