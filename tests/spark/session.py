"""A session of Spark for tests, with Spark's own Kafka source beside ours where it can be had.

`python -m tests.spark.session` makes an archive of Java's classes beside PySpark. A session that
starts after that takes two thirds of the processor; for few sessions it does not pay.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.kafka.real.install import fetched, jars_folder, java_is_missing

#: As for Kafka's brokers: no threads that collect garbage, no second compiler, and no words of
#: Java's own. A session of a test mostly starts.
JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xlog:disable"

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


def a_session(master: str = "local[2]", *, python: str = sys.executable, **settings: Any) -> Any:
    """A new session, with `python` for its Python processes. Only one can be there at a time."""
    from pyspark.sql import SparkSession

    # Workers must run this Python, and find this checkout.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    path = os.environ.get("PYTHONPATH", "")
    if str(_ROOT) not in path.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(_ROOT), path]))
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", JAVA)  # a Java that says how to start the other
    given = {
        "spark.driver.extraJavaOptions": " ".join(_of_driver()),
        "spark.executor.extraJavaOptions": JAVA,
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


def of_a_program(**settings: str) -> dict[str, str]:
    """For the environment of a program that makes its own session: it starts as quickly as ours."""
    given = {
        "spark.driver.extraJavaOptions": " ".join(_of_driver()),
        "spark.ui.enabled": "false",
    }
    words = [word for pair in (given | settings).items() for word in ("--conf", "=".join(pair))]
    return {
        "PYSPARK_SUBMIT_ARGS": shlex.join([*words, "pyspark-shell"]),
        "SPARK_LAUNCHER_OPTS": JAVA,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def command(folder: Path) -> str:
    """`aktor-spark-python` as pip makes it, of this checkout."""
    found = folder / "aktor-spark-python"
    found.write_text(
        f"#!{sys.executable}\nimport sys\nfrom aktor.spark_python import main\nsys.exit(main())\n"
    )
    found.chmod(0o700)
    return str(found)


def _of_driver() -> list[str]:
    archive = _archive()
    return [JAVA, f"-XX:SharedArchiveFile={archive}"] if archive.is_file() else [JAVA]


def _archive() -> Path:
    """Java takes it only if the jars are those for which it was made, at the same place."""
    import pyspark

    return Path(pyspark.__file__).with_name("classes.jsa")


def prepare() -> None:
    """Make the archive, by a session that ends in good order."""
    archive = _archive()
    if archive.is_file() or what_is_missing():
        return
    unfinished = archive.with_suffix(".unfinished")
    written = f"{JAVA} -XX:ArchiveClassesAtExit={unfinished}"
    spark = a_session(**{"spark.driver.extraJavaOptions": written})
    with tempfile.TemporaryDirectory() as folder:
        spark.range(100).selectExpr("id % 7 AS a", "id").write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows")
        assert len(rows.groupBy("a").sum().orderBy("a").collect()) == 7
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    unfinished.rename(archive)


if __name__ == "__main__":
    prepare()
