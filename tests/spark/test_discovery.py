"""PySpark finds the data source by the name of a module."""

from __future__ import annotations

import subprocess
import sys
from pkgutil import iter_modules

import pytest
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


@pytest.mark.parametrize("module", ["aktor.spark.source", "aktor.spark.driver.stream"])
def test_a_process_that_asks_for_no_offsets_does_not_import_the_consumer(module: str) -> None:
    """Spark has three processes for each stream, and starts those of all streams at once."""
    program = f"import sys, {module}; print(sorted(one for one in sys.modules if 'facade' in one))"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert run.stdout == "[]\n", run.stderr
