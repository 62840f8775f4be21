"""Twenty faults, each caused on a real Kafka while a group reads, and the words that must be said.

A function causes one. Its `Case` says of which member's `why()` which words are asked now, and what
`aktor why` has to say of the traces afterwards. Words are regular expressions: whose fault it is,
which broker or member, since when.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    ResourcePattern,
    ResourceType,
)

from tests.kafka.real import KafkaCluster, topics
from tests.kafka.real.broker import Jvm
from tests.kafka.real.security import USERS
from tests.kafka.told.group import Case, Group

__all__ = ["FAULTS", "SETTINGS"]

#: What the brokers are told, besides what all tests tell them.
SETTINGS: Final[Mapping[str, str]] = {
    "broker.session.timeout.ms": "6000",
    "unclean.leader.election.enable": "false",
}

#: How long the session of a member is, in both protocols.
SESSION: Final = 6.0

THREE: Final = ("alice", "bob", "carol")
GONE: Final = (
    r"triggered by bob\b.*the coordinator took it out of the group, and it had not said that it"
    r" leaves"
)


# -- the application


def slow_callback(case: Case) -> None:
    """bob's rebalance listener takes five seconds while carol joins."""
    group = case.make("alice", "bob")
    group["bob"].order(slow=5.0)
    group.join("carol")
    case.now("bob", r"on_partitions_revoked has not returned for [2-5]", r"\(told/member\.py:\d+")
    group.settled()
    case.afterwards(
        r"triggered by carol\b.*first join", r"bob\b.* held it: its revoked callback took 5\.\d s"
    )
    case.only("triggered by carol")


def poll_overrun(case: Case) -> None:
    """bob works for 11 s on one poll, and may take 5."""
    group = case.make(*THREE, max_poll_interval_ms=5000)
    group["bob"].order(nap=11.0)
    case.now(
        "bob",
        r"the application has not polled for \d",
        r"it is at \S*member\.py:\d+",
        r"leaves its group in \d",
    )
    case.now("bob", r"has not polled for (5\.[2-9]|[6-9])", r"has left its group \(max_poll")
    time.sleep(6.0)
    group.settled()
    case.afterwards(r"triggered by bob\b.*no poll for 5\.\d+ s \(max_poll_interval_ms\)")
    case.only(r"triggered by bob\b.*(no poll for 5|the application polls again)")


def paused(case: Case) -> None:
    """bob pauses all that it reads for six seconds."""
    group = case.make(*THREE)
    group["bob"].order(pause=True)
    said = r"the application has paused reading [3-9]\.\d s"
    case.now("bob", r"Nothing is delivered from \S+", said)
    time.sleep(2.0)
    group["bob"].order(pause=False)
    time.sleep(1.0)
    case.afterwards(r"bob\b.*was given nothing from .* for", r"the application had paused it")
    case.only("nobody")


def full_buffer(case: Case) -> None:
    """bob works long on each record, and its buffer is full of one partition's. Meanwhile the
    others' leaders are asked nothing, so no trace can say whether they had anything."""
    group = case.make(
        "alice",
        "bob",
        size=1000,
        every=0.5,
        max_buffered_bytes=16_000,
        max_partition_fetch_bytes=16_000,
        max_poll_records=1,
    )
    group.load.end()
    time.sleep(3.0)
    last = group["bob"].given.read_text().splitlines()[-1]
    topic, _, partition = last.split()[1].rpartition("-")
    # (Records that come one by one are fetched up to an equal part of the buffer only.)
    group["bob"].order(pause=True)
    time.sleep(1.0)
    many = [b"x" * 1000] * 500
    topics.produce(group.servers, topic, many, partition=int(partition))
    group["bob"].order(pause=False, work=0.4)
    case.now("bob", r"Nothing from \S+.*the buffer is full \(\d+ of 16000 bytes\)")
    time.sleep(3.0)
    case.only("nobody")


# -- members


def kill(case: Case) -> None:
    """bob's process is killed."""
    group = case.make(*THREE)
    group["bob"].signal(signal.SIGKILL)
    time.sleep(SESSION / 2)
    case.now("alice", "Records are fetched and delivered")
    time.sleep(SESSION / 2)
    group.settled()
    case.afterwards(GONE)
    case.only(GONE)


def leave(case: Case) -> None:
    """bob closes its consumer."""
    group = case.make(*THREE)
    group["bob"].leave()
    time.sleep(2.0)
    group.settled()
    case.now("alice", "Records are fetched and delivered")
    case.afterwards(r"triggered by bob\b.*the consumer was closed")
    case.only(r"triggered by bob\b.*the consumer was closed")


def stopped(case: Case) -> None:
    """bob's process is stopped (SIGSTOP) for longer than its session, and goes on."""
    group = case.make(*THREE)
    stopped_at = time.monotonic()
    group["bob"].signal(signal.SIGSTOP)
    time.sleep(7.0)
    case.now("alice", "Records are fetched and delivered")
    time.sleep(7.0)
    group["bob"].signal(signal.SIGCONT)
    tenths = round((time.monotonic() - stopped_at) * 10)
    lasted = "|".join(rf"{one / 10:.1f}" for one in range(110, tenths + 1))
    still = f"the process stood still for at least (?:{lasted}) s"
    time.sleep(1.0)
    group.settled()
    case.afterwards(rf"{GONE}: {still}")
    case.afterwards(rf"triggered by bob\b.*fenced: UNKNOWN_MEMBER_ID.*after {still}")
    case.only(rf"{GONE}|triggered by bob\b.*{still}")


def subscription(case: Case) -> None:
    """bob subscribes to a second topic."""
    group = case.make(*THREE)
    more = f"invoices-of-{group.name}"
    topics.create_topic(group.servers, more, 2, 3)
    case.begin()
    group["bob"].order(subscribe=[group.topic, more])
    time.sleep(2.0)
    group.settled(all_of=8)
    case.now("bob", "Records are fetched and delivered")
    case.afterwards(r"triggered by bob\b.*the subscription changed")
    case.only(r"triggered by bob\b.*the subscription changed")


def fencing(case: Case) -> None:
    """A second consumer comes with the instance id of alice."""
    group = case.make("bob")
    group.join("alice", group_instance_id="one")
    group.settled()
    case.begin()
    group.join("dave", group_instance_id="one")
    classic = case.protocol == "classic"
    loser, error = ("alice", "FENCED") if classic else ("dave", "UNRELEASED")
    case.now(loser, rf"the group has refused the member for \d.*{error}_INSTANCE_ID", "one")
    time.sleep(3.0)
    case.afterwards(rf"{loser}\b.*was refused the group.*{error}_INSTANCE_ID")


# -- topics


def grown(case: Case) -> None:
    """The topic has eight partitions, no longer six."""
    group = case.make(*THREE)
    topics.add_partitions(group.servers, group.topic, 8)
    time.sleep(3.0)
    group.settled(all_of=8)
    case.now("alice", "Records are fetched and delivered")
    case.afterwards(rf"the partitions of {group.topic} changed \(.*6, now 8\)")
    case.only(r"the partitions of \S+ changed")


def deleted(case: Case) -> None:
    """The topic is deleted."""
    group = case.make(*THREE)
    group.load.end()
    case.begin()
    topics.delete_topic(group.servers, group.topic)
    case.now("alice", rf"no broker has known the topic '{group.topic}' for \d")
    time.sleep(6.0)
    case.afterwards(rf"the (topic|partitions of) {group.topic} (was deleted|.*now none)")
    case.only("was deleted|now none")


# -- brokers


def coordinator_moved(case: Case) -> None:
    """Another broker becomes the group's coordinator, in good order."""
    group = case.make(*THREE)
    before = topics.coordinator_of(group.servers, group.name)
    for view in topics.views(group.servers)[0].of_topic("__consumer_offsets"):
        if view.leader == before:
            other = next(node for node in view.replicas if node != before)
            topics.move_leader(group.servers, "__consumer_offsets", view.index, other)
    assert topics.coordinator_of(group.servers, group.name) != before
    case.now("alice", "Records are fetched and delivered")
    time.sleep(8.0)
    case.only("nobody")


def coordinator_dead(case: Case) -> None:
    """The coordinator's broker is killed, and carol joins before another has taken over."""
    group = case.make("alice", "bob")
    node = topics.coordinator_of(group.servers, group.name)
    address = group.kafka.address("PLAINTEXT", node)
    case.kafka.kill(node)
    group.join("carol")
    case.now(
        "alice",
        rf"(coordinator|leader) \(broker {node}, {address}\) has not answered for \d",
        r"Connection refused",
    )
    case.now("carol", rf"broker {node}, {address}\b", "(?i)connection refused", within=5.0)
    group.settled()
    case.over()
    case.afterwards(
        r"triggered by carol\b.*first join",
        rf"waited \d+\.\d s for the coordinator, broker {node} at {address}: Connection refused",
    )
    case.afterwards(rf"was given nothing.*\(broker {node}, {address}\) has not answered")
    for name in ("alice", "bob"):
        case.afterwards(
            rf"{name}\b.* had no answer from its coordinator, broker {node} at {address}, for"
            r" \d+\.\d s, until broker \d at \S+ (answered|was found): Connection refused"
        )
    case.only("triggered by carol")


def _other_than_coordinator(group: Group) -> int:
    coordinator = topics.coordinator_of(group.servers, group.name)
    return next(node for node in group.kafka.node_ids if node != coordinator)


def broker_lost(case: Case) -> None:
    """A broker that leads partitions is cut off: it stands still, and connections stay open."""
    group = case.make(*THREE)
    node = _other_than_coordinator(group)
    address = group.kafka.address("PLAINTEXT", node)
    case.kafka.pause(node)
    led = [
        v.index
        for v in topics.views(
            group.servers[:0]
            + [
                group.kafka.address("PLAINTEXT", other)
                for other in group.kafka.node_ids
                if other != node
            ]
        )[0].of_topic(group.topic)
        if v.leader == node
    ]
    owner = _owner_of(group, led)
    case.now(owner, rf"its leader \(broker {node}, {address}\) has not answered a Fetch for \d")
    time.sleep(7.0)
    case.kafka.resume(node)
    time.sleep(2.0)
    case.afterwards(rf"was given nothing.*its leader \(broker {node}, {address}\) has not answered")
    case.only("nobody")


def _owner_of(group: Group, partitions: list[int]) -> str:
    """A member that was given records of one of these."""
    wanted = {f"{group.topic}-{one}" for one in partitions}
    for name, member in group.members.items():
        if any(line.split()[1] in wanted for line in member.given.read_text().splitlines()[-50:]):
            return name
    raise LookupError(f"nobody reads {wanted}")


def no_leader(case: Case) -> None:
    """The only replica of some partitions is killed."""
    group = case.make(*THREE, replication=1)
    node = _other_than_coordinator(group)
    led = [
        v.index for v in topics.views(group.servers)[0].of_topic(group.topic) if v.leader == node
    ]
    owner = _owner_of(group, led)
    case.kafka.kill(node)
    case.now(owner, rf"{group.topic}-\d.*no broker has led it for [2-9]\.\d s; broker {node}\b")
    case.over()
    case.afterwards(rf"was given nothing from {group.topic}-\d", rf"broker {node}\b")
    case.only("nobody")


def unclean(case: Case) -> None:
    """A replica that was behind becomes the leader."""
    group = case.make(
        "alice",
        partitions=1,
        replication=2,
        configs={"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
    )
    leader = topics.leader_of(group.servers, group.topic, 0)
    (described,) = topics.views(group.servers)[0].of_topic(group.topic)
    (follower,) = set(described.replicas) - {leader}
    case.kafka.terminate(follower)
    time.sleep(3.0)
    case.begin()
    case.kafka.kill(leader)
    case.now("alice", rf"broker {leader}, \S+\) has not answered for \d")
    case.kafka.restart(follower)
    topics.wait_for_leader(group.servers, group.topic, 0, other_than=leader)
    case.now("alice", "Records are fetched and delivered")
    case.afterwards(r"from \d+ to \d+: the log was truncated")
    case.only("nobody")


# -- rights, quotas, clocks


def wrong_password(case: Case) -> None:
    """The user's password is changed, and a broker starts again."""
    kafka, user = case.kafka, "carl"
    topics.add_scram_user(kafka.bootstrap_servers, "SCRAM-SHA-256", user, "old-secret")
    topics.grant(
        kafka.bootstrap_servers,
        [_may(user, ResourceType.TOPIC, "*"), _may(user, ResourceType.GROUP, "*")],
    )
    group = case.make(
        "alice",
        "bob",
        bootstrap_servers=[kafka.address("SASL_PLAINTEXT", node) for node in kafka.node_ids],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username=user,
        sasl_plain_password="old-secret",
    )
    topics.add_scram_user(kafka.bootstrap_servers, "SCRAM-SHA-256", user, "new-secret")
    kafka.restart(topics.coordinator_of(group.servers, group.name))
    case.now("alice", r"broker \d, 127.0.0.1:\d+\b.*has refused our login for \d")
    time.sleep(3.0)
    case.afterwards(r"was refused the login \d+ times within \d")


def _may(
    user: str, kind: ResourceType, name: str, operation: ACLOperation = ACLOperation.READ
) -> ACL:
    return ACL(
        principal=f"User:{user}",
        host="*",
        operation=operation,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(kind, name),
    )


def right_withdrawn(case: Case) -> None:
    """The right to read the topic is withdrawn."""
    kafka, user = case.kafka, "bob"
    topic = f"orders-of-right-withdrawn-{case.protocol}"
    rule = _may(user, ResourceType.TOPIC, topic)
    # (Who may read a topic may describe it: without this the topic would be gone for bob.)
    stays = _may(user, ResourceType.TOPIC, topic, ACLOperation.DESCRIBE)
    topics.grant(kafka.bootstrap_servers, [rule, stays, _may(user, ResourceType.GROUP, "*")])
    group = case.make(
        "alice",
        "bob",
        bootstrap_servers=[kafka.address("SASL_PLAINTEXT", node) for node in kafka.node_ids],
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username=user,
        sasl_plain_password=USERS[user],
    )
    topics.withdraw(kafka.bootstrap_servers, [rule])
    case.now("alice", rf"for the topic '{group.topic}' was refused", "READ", r"\d s")
    time.sleep(6.0)
    case.over()
    case.afterwards(rf"was given nothing.*the topic '{group.topic}' was refused by broker \d")
    case.afterwards("TopicAuthorizationFailedError: OffsetCommit for the topic")


def throttled(case: Case) -> None:
    """The quota of bob's client id is used up."""
    group = case.make(*THREE)
    _set_quota(case.kafka, "--add-config", "consumer_byte_rate=2000")
    case.now("bob", r"broker \d, \S+ has throttled us for \d.*a quota is used up.*\d s are left")
    time.sleep(8.0)
    _set_quota(case.kafka, "--delete-config", "consumer_byte_rate")
    case.over()
    case.afterwards(r"bob\b.*was given nothing.*broker \d, \S+ has throttled us")
    case.only("nobody")
    assert group.name


def _set_quota(kafka: KafkaCluster, *what: str) -> None:
    jvm = Jvm(kafka=kafka.prepare(), heap_mb=128)
    arguments = ["--bootstrap-server", kafka.bootstrap_servers[0], "--alter", *what]
    arguments += ["--entity-type", "clients", "--entity-name", "bob"]
    command = jvm.command("kafka.admin.ConfigCommand", arguments)
    subprocess.run(command, check=True, capture_output=True)


#: `clock_gettime` of a process whose wall clock is ahead by as many seconds as a file has bytes.
_CLOCK: Final = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    struct stat file;
    if (!real) real = (int (*)(clockid_t, struct timespec *)) dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, at);
    char *name = id == CLOCK_REALTIME ? getenv("WALL_CLOCK") : NULL;
    if (name && stat(name, &file) == 0) at->tv_sec += file.st_size;
    return result;
}
"""


def clock_jump(case: Case) -> None:
    """bob's wall clock is set ahead by an hour: by a library that is loaded before libc, since the
    machine's clock is that of all."""
    source, library = case.folder / "clock.c", case.folder / "clock.so"
    source.write_text(_CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    group = case.make("alice")
    group.join("bob", preload=str(library))
    group.settled()
    case.begin()
    (group.folder / "bob.clock").write_bytes(b"x" * 3600)
    case.now("bob", "Records are fetched and delivered")
    time.sleep(4.0)
    case.warned(r"clock of bob\b.* was set by \+?3600")
    case.only("nobody")


#: What causes each, and in which protocols.
BOTH, ONE = ("classic", "consumer"), ("classic",)
FAULTS: Final[Mapping[str, tuple[Callable[[Case], Any], tuple[str, ...]]]] = {
    "slow-callback": (slow_callback, BOTH),
    "poll-overrun": (poll_overrun, BOTH),
    "kill": (kill, BOTH),
    "leave": (leave, BOTH),
    "stopped": (stopped, BOTH),
    "coordinator-moved": (coordinator_moved, BOTH),
    "coordinator-dead": (coordinator_dead, BOTH),
    "broker-lost": (broker_lost, ONE),
    "subscription": (subscription, BOTH),
    "grown": (grown, BOTH),
    "deleted": (deleted, BOTH),
    "fencing": (fencing, BOTH),
    "wrong-password": (wrong_password, ONE),
    "right-withdrawn": (right_withdrawn, ONE),
    "no-leader": (no_leader, ONE),
    "paused": (paused, ONE),
    "full-buffer": (full_buffer, ONE),
    "throttled": (throttled, ONE),
    "unclean": (unclean, ONE),
    "clock-jump": (clock_jump, ONE),
}
