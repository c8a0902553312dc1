"""How a client shows who it is: certificates and tokens."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple, Optional

import grpc

from .errors import InvalidArgument


def _read(option: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise InvalidArgument(f"{option}: {path}: cannot be read ({error.strerror}); name a file in PEM form") from error


def _check(tls_ca: str, tls_cert: Optional[str], tls_key: Optional[str]) -> None:
    """gRPC takes any bytes, and fails each call later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=tls_ca)
    except ssl.SSLError as error:
        raise InvalidArgument(f"tls_ca: {tls_ca}: holds no certificate in PEM form; name a file with one") from error
    if tls_cert is None or tls_key is None:
        return
    try:
        context.load_cert_chain(tls_cert, tls_key, password=lambda: "")  # it would ask at the terminal
    except ssl.SSLError as error:
        raise InvalidArgument(f"tls_cert, tls_key: {tls_cert}, {tls_key}: hold no certificate with its key in PEM form, "
                              "without a passphrase; name files that do") from error


def encrypted(tls_ca: str, tls_cert: Optional[str], tls_key: Optional[str]) -> Any:
    """Returns the credentials of a channel, from files in PEM form. InvalidArgument if they hold none."""
    authorities = _read("tls_ca", tls_ca)
    key = None if tls_key is None else _read("tls_key", tls_key)
    certificate = None if tls_cert is None else _read("tls_cert", tls_cert)
    _check(tls_ca, tls_cert, tls_key)
    return grpc.ssl_channel_credentials(root_certificates=authorities, private_key=key, certificate_chain=certificate)


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
