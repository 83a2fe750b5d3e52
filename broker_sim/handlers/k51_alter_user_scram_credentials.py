"""AlterUserScramCredentials (51), version 0: create, replace and delete users' SCRAM credentials, answered by any broker.

A user may be altered once in a request: who is named again is refused, and keeps what it had. Rows are those of deletions, upsertions
and errors, each in the order of a java.util.HashMap. Source: ScramControlManager; KIP-554, in KRaft since 3.5 (KIP-900).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from broker_sim.common.slices import Pace
from broker_sim.coordinator.classic.vote import java_ordering
from broker_sim.handlers.k50_describe_user_scram_credentials import credentials_of
from broker_sim.requests.context import RequestContext
from broker_sim.requests.traits import ErrorRequest, ErrorTraits
from kafka_wire.errors import Err
from kafka_wire.messages.k50_describe_user_scram_credentials import SCRAM_MECHANISMS
from kafka_wire.messages.k51_alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

if TYPE_CHECKING:
    from broker_sim.authentication.credentials import ScramCredentials

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16_384
"""ScramMechanism, ScramControlManager."""

_PIECE = 500
"""Credentials that are looked at before others are served."""

Refusal = tuple[Err, str | None]

_TWICE: Refusal = (Err.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")


def handle(ctx: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse | None:
    response: AlterUserScramCredentialsResponse | None = ctx.in_pieces(_alter_all(ctx, request))
    return response


def _alter_all(
    ctx: RequestContext, request: AlterUserScramCredentialsRequest
) -> Generator[None, None, AlterUserScramCredentialsResponse]:
    credentials, pace = credentials_of(ctx), Pace(_PIECE)
    deletions: dict[str, ScramCredentialDeletion] = {}
    upsertions: dict[str, ScramCredentialUpsertion] = {}
    errors: dict[str, Refusal] = {}
    for deletion in request.deletions:
        if pace.full():
            yield
        if deletions.pop(deletion.name, None) is not None:
            errors[deletion.name] = _TWICE
        elif deletion.name not in errors:
            error = _error(deletion) or _deletion_error(credentials, deletion)
            if error is None:
                deletions[deletion.name] = deletion
            else:
                errors[deletion.name] = error
    for upsertion in request.upsertions:
        if pace.full():
            yield
        former = deletions.pop(upsertion.name, None), upsertions.pop(upsertion.name, None)
        if former != (None, None):
            errors[upsertion.name] = _TWICE
        elif upsertion.name not in errors:
            error = _error(upsertion) or _upsertion_error(upsertion)
            if error is None:
                upsertions[upsertion.name] = upsertion
            else:
                errors[upsertion.name] = error
    results = []
    for name in (yield from java_ordering(deletions)):
        if pace.full():
            yield
        credentials.delete(name, SCRAM_MECHANISMS[deletions[name].mechanism])
        results.append(AlterUserScramCredentialsResult(name, Err.NONE, None))
    for name in (yield from java_ordering(upsertions)):
        if pace.full():
            yield
        if not upsertions[name].salted_password:
            errors[name] = Err.UNKNOWN_SERVER_ERROR, None  # Java's SecretKeySpec refuses an empty key
            continue
        _store(credentials, upsertions[name])
        results.append(AlterUserScramCredentialsResult(name, Err.NONE, None))
    for name in (yield from java_ordering(errors)):
        if pace.full():
            yield
        results.append(AlterUserScramCredentialsResult(name, *errors[name]))
    if deletions or upsertions:
        ctx.broker.state.has_changed()
    return AlterUserScramCredentialsResponse(results=results)


def _error(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Refusal | None:
    if not change.name:
        return Err.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if change.mechanism not in SCRAM_MECHANISMS:
        return Err.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _deletion_error(credentials: ScramCredentials, deletion: ScramCredentialDeletion) -> Refusal | None:
    if SCRAM_MECHANISMS[deletion.mechanism] in credentials.iterations(deletion.name):
        return None
    return Err.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"


def _upsertion_error(upsertion: ScramCredentialUpsertion) -> Refusal | None:
    if upsertion.iterations < MIN_ITERATIONS:
        return Err.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > MAX_ITERATIONS:
        return Err.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return None


def _store(credentials: ScramCredentials, upsertion: ScramCredentialUpsertion) -> None:
    from broker_sim.authentication.credentials import ScramCredential

    mechanism = SCRAM_MECHANISMS[upsertion.mechanism]
    made = ScramCredential.salted(mechanism, upsertion.salted_password, upsertion.salt, upsertion.iterations)
    credentials.store(upsertion.name, mechanism, made)


def _failure(error_request: ErrorRequest) -> AlterUserScramCredentialsResponse:
    """As Kafka's request class has it: a row for each name, sorted."""
    request, err = error_request.request, error_request.err
    names = {change.name for change in (*request.deletions, *request.upsertions)}
    return AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult(name, err, None) for name in sorted(names)]
    )


TRAITS = ErrorTraits(failed=_failure)
