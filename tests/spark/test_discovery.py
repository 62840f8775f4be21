"""PySpark finds the data source by the name of a module."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

from pyspark.sql.datasource import DataSource

from aktor.spark import KafkaDataSource


def test_the_module_that_pyspark_looks_for_has_the_source() -> None:
    import pyspark_aktor

    assert "pyspark_aktor" in {one.name for one in iter_modules()}
    assert pyspark_aktor.DefaultSource is KafkaDataSource
    assert issubclass(KafkaDataSource, DataSource)
    assert KafkaDataSource.name() == "aktor"


def test_without_pyarrow_pyspark_finds_its_other_sources_all_the_same() -> None:
    program = "import sys; sys.modules['pyarrow'] = None; import pyspark_aktor; print('found')"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "found\n", run.stderr
