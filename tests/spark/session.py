"""A session of Spark for tests, with Spark's own Kafka source beside ours where it can be had."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.kafka.real.install import fetched, jars_folder, java_is_missing

_POM = Path(__file__).with_name("pom.xml")
_ROOT = Path(__file__).parent.parent.parent


def what_is_missing() -> str | None:
    """One line that names what is missing for Spark; None if it can be had."""
    if java_is_missing():
        return "Spark needs Java 17 or newer: apt-get install openjdk-17-jre-headless"
    return None


def connector() -> list[Path]:
    """The jars of Spark's own Kafka source; none without Maven, unless they are here already."""
    folder = jars_folder(_POM, "spark-connector")
    if not folder.is_dir() and shutil.which("mvn") is None:
        return []
    return sorted(fetched(_POM, "Spark's Kafka source (13 MB)", folder).glob("*.jar"))


def a_session(master: str = "local[2]", **settings: Any) -> Any:
    """A new session. Only one can be there at a time."""
    from pyspark.sql import SparkSession

    # Workers must run this Python, and find this checkout.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    path = os.environ.get("PYTHONPATH", "")
    if str(_ROOT) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), path]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    given = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.jars": ",".join(map(str, connector())),
    }
    builder = SparkSession.builder.master(master)
    for name, value in (given | settings).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
