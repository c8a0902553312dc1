"""How a client shows who it is: certificates and tokens."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import grpc

from .errors import InvalidArgument


def _read(option: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument(f"{option}: {path}: cannot be read ({error.strerror}); name a file in PEM form") from error


def encrypted(tls_ca: str, tls_cert: Optional[str], tls_key: Optional[str]) -> Any:
    """Returns the credentials of a channel, from files in PEM form."""
    return grpc.ssl_channel_credentials(root_certificates=_read("tls_ca", tls_ca),
                                        private_key=None if tls_key is None else _read("tls_key", tls_key),
                                        certificate_chain=None if tls_cert is None else _read("tls_cert", tls_cert))


class _Details(NamedTuple):
    method: str
    timeout: Optional[float]
    metadata: Any
    credentials: Any
    wait_for_ready: Optional[bool]
    compression: Any


class ShowToken(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
                grpc.StreamUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    """Adds a token to each call. Not a credential of gRPC, which sends none in plain text, such as to this machine."""

    def __init__(self, token: str):
        if not token or not all("!" <= character <= "~" for character in token):
            raise InvalidArgument("token: it is empty or has other characters than a token's; give the line that "
                                  "`autocfg token create` prints")
        self._entry = ("authorization", "Bearer " + token)

    def _intercept(self, continuation: Any, details: Any, request: Any) -> Any:
        return continuation(_Details(details.method, details.timeout, [*(details.metadata or []), self._entry], details.credentials,
                                     getattr(details, "wait_for_ready", None), getattr(details, "compression", None)), request)

    intercept_unary_unary = _intercept
    intercept_unary_stream = _intercept
    intercept_stream_unary = _intercept
    intercept_stream_stream = _intercept
