"""Errors of a coordinator. Each carries the coordinator's message: one line, what is wrong and what to do."""

from __future__ import annotations

from typing import Any

import grpc


class AutocfgError(Exception):
    """The base of all errors of this package. `str(error)` is one line."""


class InvalidArgument(AutocfgError):
    """The request is wrong: the same request always fails."""


class NotSupported(AutocfgError):
    """The coordinator cannot do what was asked for."""


class NotFound(AutocfgError):
    """No study or trial has this name."""


class AlreadyExists(AutocfgError):
    """The request ID was used for another request."""


class FailedPrecondition(AutocfgError):
    """The study's state, or the workers, do not allow the call now; or the framework of an export cannot express the plan."""


class PermissionDenied(AutocfgError):
    """The caller has no token that the coordinator knows, or one whose role or owner may not do this."""


class ResourceExhausted(AutocfgError):
    """A limit of the coordinator is reached. Try again later."""


class Unavailable(AutocfgError):
    """No coordinator answered for as long as the client's patience lasts."""


class Internal(AutocfgError):
    """The coordinator failed in a way that the request does not explain."""


class SearchFailed(AutocfgError):
    """The study ended as FAILED or CANCELLED, so there is no answer."""


_BY_CODE = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgument,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgument,
    grpc.StatusCode.UNIMPLEMENTED: NotSupported,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: AlreadyExists,
    grpc.StatusCode.FAILED_PRECONDITION: FailedPrecondition,
    grpc.StatusCode.UNAUTHENTICATED: PermissionDenied,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.CANCELLED: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: Unavailable,
}


def from_rpc(error: Any, address: str) -> AutocfgError:
    """Returns the exception for a failed call (`grpc.RpcError`) to `address`."""
    kind = _BY_CODE.get(error.code(), Internal)
    said = " ".join(str(error.details() or error.code()).split())
    return kind(f"{address}: no coordinator answers there ({said})" if kind is Unavailable else said)
