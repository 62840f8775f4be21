"""Of ACLs, quotas and stored passwords there are none, as a real Kafka without them says."""

from __future__ import annotations

from aktor.broker.codes import Code
from tests.kafka.recorded.messages import request
from tests.unit.broker.builders import a_cluster, ask

ANY, ALLOW, READ, TOPIC, LITERAL = 1, 3, 3, 2, 3


def test_who_asks_for_acls_is_told_that_security_is_off() -> None:
    cluster = a_cluster()
    anything = {
        "resource_type_filter": ANY,
        "resource_name_filter": None,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    acl = {
        "resource_type": TOPIC,
        "resource_name": "orders",
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }

    described = ask(cluster, request("DescribeAcls", **anything), 3)
    created = ask(cluster, request("CreateAcls", creations=[acl, acl]), 3)
    deleted = ask(cluster, request("DeleteAcls", filters=[anything]), 3)

    off = Code.SECURITY_DISABLED
    assert (described.error_code, described.resources) == (off, [])
    assert described.error_message == "No Authorizer is configured on the broker"
    assert [one.error_code for one in created.results] == [off, off]
    assert [one.error_code for one in deleted.filter_results] == [off]


def test_there_are_no_quotas_and_no_stored_passwords() -> None:
    cluster = a_cluster()

    quotas = ask(cluster, request("DescribeClientQuotas", components=[], strict=False), 1)
    everybody = ask(cluster, request("DescribeUserScramCredentials", users=None), 0)
    bob = ask(cluster, request("DescribeUserScramCredentials", users=[{"name": "bob"}]), 0)

    assert (quotas.error_code, quotas.entries) == (Code.NONE, [])
    assert (everybody.error_code, everybody.results) == (Code.NONE, [])
    (result,) = bob.results
    assert (result.user, result.error_code) == ("bob", Code.RESOURCE_NOT_FOUND)
