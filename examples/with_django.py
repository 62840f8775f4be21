"""Django: a command, `manage.py consume_orders`. Put this into yourapp/management/commands/.

Connections to the database that were closed by the server meanwhile (CONN_MAX_AGE) are made anew
before each batch, as Django does it before each request.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import close_old_connections, transaction

from aktor import KafkaConsumer
from examples.record_loop import Record, run


class Command(BaseCommand):
    """Reads until SIGTERM."""

    help = "Bills the orders that come from Kafka."

    def handle(self, *_: Any, **__: Any) -> None:
        """Called by manage.py."""
        with KafkaConsumer(
            "orders",
            bootstrap_servers=settings.KAFKA,
            group_id="billing",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer:
            done = run(consumer, self.bill, before_batch=close_old_connections)
        self.stdout.write(f"{done} orders")

    def bill(self, record: Record) -> None:
        """One record: save what it says, in a transaction of its own."""
        with transaction.atomic():
            self.stdout.write(f"bill {record.value!r}")
