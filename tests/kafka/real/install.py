"""Kafka's jars, fetched once per machine by Maven and kept in a cache folder."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.1"
JAVA_MIN = 17
DOWNLOAD_TIMEOUT_S = 600

_POM = Path(__file__).with_name("pom.xml")
_HOW_TO_GET = "apt-get install openjdk-17-jre-headless maven"


class KafkaUnavailableError(RuntimeError):
    """This machine lacks what a real Kafka needs. The message is one line with the remedy."""


class KafkaDownloadError(RuntimeError):
    """Maven is there, but could not fetch the jars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that can run Kafka: the path of its program, and its full version as it states it."""

    program: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Kafka on this machine: a Java, the jars, and a folder for what is made from both."""

    java: Java
    jars: Path
    cache: Path

    @property
    def classpath(self) -> str:
        """The jars in a stable order: a class-data archive is valid for exactly one class path."""
        return os.pathsep.join(str(jar) for jar in sorted(self.jars.glob("*.jar")))


def what_is_missing() -> str | None:
    """One line that names what is missing here and how to get it; None if Kafka can be had."""
    if _java() is None:
        return f"a real Kafka needs Java {JAVA_MIN} or newer: {_HOW_TO_GET}"
    if not _jars_folder().is_dir() and shutil.which("mvn") is None:
        return f"a real Kafka needs Maven to fetch its jars: {_HOW_TO_GET}"
    return None


def installed() -> Distribution:
    """Kafka, fetched first if need be (about 45 MB).

    Raises `KafkaUnavailableError` without Java or Maven, `KafkaDownloadError` if Maven fails.
    """
    missing = what_is_missing()
    java = _java()
    if missing is not None or java is None:
        raise KafkaUnavailableError(missing)
    jars = fetched(_POM, f"Apache Kafka {KAFKA_VERSION} (45 MB)", _jars_folder())
    return Distribution(java=java, jars=jars, cache=jars.parent)


def fetched(pom: Path, what: str, jars: Path) -> Path:
    """The folder with the jars of a pom, fetched by Maven unless it is there.

    Raises `KafkaDownloadError` if Maven fails.
    """
    if not jars.is_dir():
        with exclusive(jars.parent / "fetch.lock"):
            if not jars.is_dir():
                _fetch(pom, what, jars)
    return jars


def java_is_missing() -> bool:
    """Whether there is no Java that can run Kafka, or Spark."""
    return _java() is None


@contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """Hold `lock` against all other processes; the kernel gives it back if we die."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _jars_folder() -> Path:
    return jars_folder(_POM, f"kafka-{KAFKA_VERSION}")


def jars_folder(pom: Path, name: str) -> Path:
    """Where the jars of a pom are kept. Named after what is in it, so that a changed pom never
    meets old jars."""
    cache = Path(os.environ.get("AKTOR_CACHE") or Path.home() / ".cache" / "aktor")
    fingerprint = hashlib.sha256(pom.read_bytes()).hexdigest()[:8]
    return cache.absolute() / name / f"jars-{fingerprint}"


def _fetch(pom: Path, what: str, jars: Path) -> None:
    """Let Maven fill a folder beside `jars`, which gets its name only when it is complete."""
    print(f"fetching {what}, once, into {jars.parent}", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix="fetching-") as folder:
        # Maven writes a `target` folder beside the pom, so the pom is copied out of the sources.
        copy = shutil.copy(pom, folder)
        command = ["mvn", "-q", "-B", "-f", copy, "dependency:copy-dependencies"]
        command += ["-DincludeScope=runtime", f"-DoutputDirectory={folder}/jars"]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=DOWNLOAD_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise KafkaDownloadError(
                f"Maven did not finish within {DOWNLOAD_TIMEOUT_S} s; is its repository reachable?"
            ) from error
        if done.returncode != 0:
            said = "\n".join((done.stdout + done.stderr).strip().splitlines()[:20])
            raise KafkaDownloadError(f"Maven could not fetch {what}:\n{said}")
        os.rename(f"{folder}/jars", jars)


@functools.cache
def _java() -> Java | None:
    home = os.environ.get("JAVA_HOME")
    program = shutil.which("java", path=f"{home}/bin") if home else None
    program = program or shutil.which("java")
    if program is None:
        return None
    said = subprocess.run(
        [program, "-version"], capture_output=True, text=True, timeout=60, check=False
    ).stderr
    major = re.search(r'version "(\d+)', said)
    if major is None or int(major[1]) < JAVA_MIN:
        return None
    return Java(program=program, version=said)
