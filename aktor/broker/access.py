"""ACLs, quotas and stored passwords: there are none, and clients are told so in Kafka's words."""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import (
    CreateAclsResponse,
    DeleteAclsResponse,
    DescribeAclsResponse,
    DescribeClientQuotasResponse,
    DescribeUserScramCredentialsResponse,
)

from aktor.broker.call import Call
from aktor.broker.codes import Code

__all__ = [
    "create_acls",
    "delete_acls",
    "describe_acls",
    "describe_client_quotas",
    "describe_user_scram_credentials",
]

_NO_AUTHORIZER: Final = "No Authorizer is configured."


def describe_acls(call: Call) -> None:
    """DescribeAcls."""
    call.reply(
        DescribeAclsResponse(
            error_code=Code.SECURITY_DISABLED,
            error_message="No Authorizer is configured on the broker",
            resources=[],
        )
    )


def create_acls(call: Call) -> None:
    """CreateAcls."""
    refusal = CreateAclsResponse.AclCreationResult(
        error_code=Code.SECURITY_DISABLED, error_message=_NO_AUTHORIZER
    )
    call.reply(CreateAclsResponse(results=[refusal for _ in call.request.creations]))


def delete_acls(call: Call) -> None:
    """DeleteAcls."""
    refusal = DeleteAclsResponse.DeleteAclsFilterResult(
        error_code=Code.SECURITY_DISABLED, error_message=_NO_AUTHORIZER, matching_acls=[]
    )
    call.reply(DeleteAclsResponse(filter_results=[refusal for _ in call.request.filters]))


def describe_client_quotas(call: Call) -> None:
    """DescribeClientQuotas."""
    call.reply(DescribeClientQuotasResponse(error_code=Code.NONE, error_message="", entries=[]))


def describe_user_scram_credentials(call: Call) -> None:
    """DescribeUserScramCredentials: users whom a broker was started with are not stored."""
    call.reply(
        DescribeUserScramCredentialsResponse(
            error_code=Code.NONE,
            error_message="",
            results=[
                DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(
                    user=user.name,
                    error_code=Code.RESOURCE_NOT_FOUND,
                    error_message="Attempt to describe a user credential that does not exist: "
                    f"{user.name}",
                    credential_infos=[],
                )
                for user in call.request.users or ()
            ],
        )
    )
