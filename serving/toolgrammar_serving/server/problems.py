"""What is said when a request cannot be served: one JSON shape for all, and what the client may learn of it.

    {"error": {"message": str, "type": str, "param": str | null, "code": str, "status": int}}

``code`` is a stable word, ``status`` the HTTP status, for readers of a stream that had begun with 200.
"""

from __future__ import annotations

import http
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any, TypeAlias

import msgspec

from toolgrammar_serving.errors import Overloaded, ServingError

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Scope: TypeAlias = MutableMapping[str, Any]
Headers: TypeAlias = list[tuple[bytes, bytes]]

JSON: Headers = [(b"content-type", b"application/json")]


class Unauthorized(ServingError):
    """No key, or a wrong one."""

    status, code, type = 401, "invalid_api_key", "AuthenticationError"


class TooLarge(ServingError):
    """The body is larger than the server reads. What of it still comes is thrown away, so that the client, who may
    be sending still, gets to read the answer; unless it ``waits`` to be asked for the body."""

    status, code, type = 413, "request_too_large", "BadRequestError"

    def __init__(self, message: str, *, waits: bool = False) -> None:
        super().__init__(message)
        self.waits = waits


class WrongMediaType(ServingError):
    """The body is not said to be JSON."""

    status, code, type = 415, "unsupported_media_type", "BadRequestError"


class ShuttingDown(ServingError):
    """The server is about to stop."""

    status, code, type = 503, "server_shutting_down", "ServiceUnavailableError"


class Internal(ServingError):
    """A fault of ours; nothing of it is told."""


_TYPES = {401: Unauthorized, 413: TooLarge, 415: WrongMediaType}
_CODES = {404: "unknown_url", 405: "method_not_allowed"}


def of_status(status: int, message: str) -> ServingError:
    """An HTTP status that the framework raised, as an error of ours."""
    error: ServingError = _TYPES.get(status, ServingError)(message)
    error.status = status
    error.code = _CODES.get(status, error.code if status in _TYPES else _word(status))
    error.type = "NotFoundError" if status == 404 else "BadRequestError" if status < 500 else error.type
    return error


def _word(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase.lower().replace(" ", "_")
    except ValueError:
        return "error"


def error_object(error: ServingError) -> dict[str, Any]:
    """The ``error`` member."""
    return {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
        "status": error.status,
    }


def error_bytes(error: ServingError) -> bytes:
    """The whole body."""
    return msgspec.json.encode({"error": error_object(error)})


def error_headers(error: ServingError, retry_after_s: int = 1) -> Headers:
    """Headers beside the content type: when to come back, how to authenticate, whether the connection ends."""
    headers: Headers = []
    if error.status in (429, 503):
        wait = error.retry_after_s if isinstance(error, Overloaded) else retry_after_s
        headers.append((b"retry-after", b"%d" % wait))
    if isinstance(error, Unauthorized):
        headers.append((b"www-authenticate", b"Bearer"))
    if isinstance(error, ShuttingDown) or (isinstance(error, TooLarge) and error.waits):
        headers.append((b"connection", b"close"))
    return headers


async def respond(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = JSON) -> None:
    """A whole response of known length."""
    start = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": start})
    await send({"type": "http.response.body", "body": body})


async def respond_error(send: Send, error: ServingError, retry_after_s: int = 1) -> None:
    """``error`` as a whole response."""
    await respond(send, error.status, error_bytes(error), [*JSON, *error_headers(error, retry_after_s)])
