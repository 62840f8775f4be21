"""Real signals at random moments of real programs; `tests/scenarios/test_interrupts.py` tries every
line of ours."""

from __future__ import annotations

import random
import signal
import time

import pytest

from aktor import TopicPartition
from tests.kafka.embedded import Cluster
from tests.kafka.real import topics
from tests.kafka.support import PROMPT_S, SOON_S, Child, numbered, quick

pytestmark = pytest.mark.ours("signals come to this process")

COUNT = 3000

#: What a program may take to read all of them while it is interrupted all the time, in seconds.
READ_S = 60.0

#: A program that reads by polls and by iterating; an alarm raises every few milliseconds.
ALARMED = """
import random
class Alarm(Exception):
    pass
def ring(number, frame):
    signal.setitimer(signal.ITIMER_REAL, random.uniform(0.002, 0.03))
    if armed:
        raise Alarm
armed = False
signal.signal(signal.SIGALRM, ring)
consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK,
                         max_poll_records=50, consumer_timeout_ms=300)
signal.setitimer(signal.ITIMER_REAL, 0.01)
given, interrupts = [], 0
until = time.monotonic() + %d
while len(given) < %d and time.monotonic() < until:
    # The storm is for the calls: it is over before anything else is done with what they return.
    # (CPython runs signal handlers after `next()` and before what it returned is kept.)
    polled, record = {}, None
    try:
        armed = True
        if len(given) %% 2:
            polled = consumer.poll(200)
            armed = False
        else:
            record = consumer.__next__()
            armed = False
    except (Alarm, StopIteration) as error:
        interrupts += type(error) is Alarm
    armed = False
    for one in [one for some in polled.values() for one in some] or [record]:
        given += [] if one is None else [one.offset]
say([given == list(range(len(given))), len(given), interrupts > 0])
signal.setitimer(signal.ITIMER_REAL, 0)
consumer.close()
say('closed')
"""

#: A program that runs until it is told to end.
STOPPED = """
consumer = KafkaConsumer(topic, bootstrap_servers=servers, group_id=group, **QUICK)
def stop(number, frame):
    consumer.close()
signal.signal(signal.SIGTERM, stop)
say('ready')
%s
say('ended')
"""

POLLING = """
from aktor.errors import ConsumerClosedError
try:
    while True:
        consumer.poll(60000)
except ConsumerClosedError:
    pass
"""

ITERATING = """
for record in consumer:
    pass
"""

EXITING = """
def stop(number, frame):
    consumer.close()
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
try:
    while True:
        consumer.poll(60000)
except SystemExit:
    pass
"""


@pytest.fixture
def orders(kafka: Cluster, topic: str) -> TopicPartition:
    """The only partition of a topic with many records."""
    topics.create_topic(kafka.bootstrap_servers, topic)
    topics.produce(kafka.bootstrap_servers, topic, numbered(COUNT))
    return TopicPartition(topic, 0)


def test_alarms_that_raise_all_the_time_lose_nothing_and_repeat_nothing(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    with Child(kafka, orders.topic, group, ALARMED % (READ_S, COUNT)) as child:
        assert child.hear(READ_S + SOON_S) == [True, COUNT, True]
        assert child.hear() == "closed"
        assert child.end() == (0, "")


@pytest.mark.parametrize("loop", [POLLING, ITERATING, EXITING])
def test_a_close_in_the_handler_of_sigterm_ends_the_loop_and_leaves_the_group(
    kafka: Cluster, orders: TopicPartition, group: str, loop: str
) -> None:
    with Child(kafka, orders.topic, group, STOPPED % loop) as child:
        assert child.hear() == "ready"
        time.sleep(random.uniform(0.1, 1.0))
        child.process.send_signal(signal.SIGTERM)
        assert child.hear() == "ended"
        assert child.end() == (0, "")

    with quick(kafka, orders.topic, group_id=group) as successor:
        began = time.monotonic()
        while not successor.assignment():
            successor.poll(20)
        assert time.monotonic() - began < PROMPT_S


def test_ctrl_c_at_any_moment_of_a_with_block_is_all_that_the_program_ends_in(
    kafka: Cluster, orders: TopicPartition, group: str
) -> None:
    # Python drops an interrupt that comes in a weak reference's callback (its own, of threads that
    # have ended), so another one follows, later than any close.
    program = (
        "import random\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "ends = []\n"
        "for turn in range(25):\n"
        "    delay = random.uniform(0.001, 0.15)\n"
        "    try:\n"
        "        with KafkaConsumer(topic, bootstrap_servers=servers, **QUICK) as consumer:\n"
        "            signal.setitimer(signal.ITIMER_REAL, delay, 8.0)\n"
        "            for record in consumer:\n"
        "                consumer.pause(); consumer.position(TopicPartition(topic, 0))\n"
        "    except KeyboardInterrupt:\n"
        "        ends.append('interrupted')\n"
        "    except Exception as error:\n"
        "        ends.append(repr(error))\n"
        "    signal.setitimer(signal.ITIMER_REAL, 0.0)\n"
        "say(ends)\n"
    )
    with Child(kafka, orders.topic, group, program) as child:
        assert child.hear(READ_S) == ["interrupted"] * 25
        code, errors = child.end()
        assert code == 0, errors
        assert not errors or errors.startswith("Exception ignored in: <function WeakSet"), errors
