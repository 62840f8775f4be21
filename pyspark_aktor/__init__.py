"""PySpark imports each module whose name begins with `pyspark_`, and registers its `DefaultSource`.

An import that fails here would keep Spark from finding any other data source, so a PySpark that is
too old, or a pyarrow that is missing, is passed over: `aktor.spark.register` says what is wrong.
"""

import contextlib

with contextlib.suppress(ImportError):
    from aktor.spark.source import KafkaDataSource as DefaultSource  # noqa: F401
