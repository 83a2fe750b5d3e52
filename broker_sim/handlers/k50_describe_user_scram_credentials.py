"""DescribeUserScramCredentials (50), version 0: users' SCRAM mechanisms and iterations, answered by any broker.

Rows are in the order of the java.util.HashMap in which Kafka collects the names; mechanisms are in the order of their numbers (Kafka's
differs from one JVM to the next). Source: ScramImage.describe; KIP-554, in KRaft since 3.5 (KIP-900).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from broker_sim.common.slices import Pace
from broker_sim.coordinator.classic.vote import java_ordering
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorRequest, ErrorTraits
from kafka_wire.errors import Err
from kafka_wire.messages.k50_describe_user_scram_credentials import (
    SCRAM_MECHANISMS,
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from broker_sim.authentication.credentials import ScramCredentials

_PIECE = 500
"""Users that are looked at before others are served."""

_NUMBERS = {mechanism: number for number, mechanism in SCRAM_MECHANISMS.items()}


def credentials_of(ctx: RequestContext) -> ScramCredentials:
    """Credentials of the cluster's users; a PLAINTEXT listener has no users with passwords, but credentials can be stored."""
    authenticator, state = ctx.connection.authenticator, ctx.broker.state
    if authenticator is not None:
        return authenticator.credentials
    from broker_sim.authentication.credentials import ScramCredentials

    return ScramCredentials({}, state.scram_credentials, (), state.rng)


def handle(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse | None:
    response: DescribeUserScramCredentialsResponse | None = ctx.in_pieces(_describe_all(ctx, request))
    return response


def _describe_all(
    ctx: RequestContext, request: DescribeUserScramCredentialsRequest
) -> Generator[None, None, DescribeUserScramCredentialsResponse]:
    credentials, pace = credentials_of(ctx), Pace(_PIECE)
    named: dict[str, bool] = {}
    """Whether a name is there twice."""
    if request.users:
        for user in request.users:
            if pace.full():
                yield
            named[user.name] = user.name in named
    else:
        for name in credentials.names():
            if pace.full():
                yield
            if credentials.iterations(name):
                named[name] = False
    results = []
    for name in (yield from java_ordering(named)):
        if pace.full():
            yield
        results.append(_described(credentials, name, twice=named[name]))
    return DescribeUserScramCredentialsResponse(results=results)


def _described(credentials: ScramCredentials, name: str, *, twice: bool) -> DescribeUserScramCredentialsResult:
    if twice:
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
        return DescribeUserScramCredentialsResult(name, Err.DUPLICATE_RESOURCE, text)
    found = [CredentialInfo(_NUMBERS[key], iterations) for key, iterations in credentials.iterations(name).items()]
    if not found:
        text = f"Attempt to describe a user credential that does not exist: {name}"
        return DescribeUserScramCredentialsResult(name, Err.RESOURCE_NOT_FOUND, text)
    return DescribeUserScramCredentialsResult(name, credential_infos=found)


def _failure(error_request: ErrorRequest) -> DescribeUserScramCredentialsResponse:
    """As Kafka's request class has it: the error at the top and in rows without names. (A request for all users has none there: Kafka
    never answers it, as it fails over the missing list.)"""
    err = error_request.err
    rows = [DescribeUserScramCredentialsResult("", err, None) for _ in error_request.request.users or ()]
    return DescribeUserScramCredentialsResponse(0, err, None, rows)


TRAITS = ErrorTraits(failed=_failure)
