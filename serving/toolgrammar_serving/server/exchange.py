"""One HTTP request as the routes see it: who it is, what its headers ask for, its body."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Final

import msgspec

from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.server.problems import Receive, Scope, TooLarge, WrongMediaType

KEY = "toolgrammar.exchange"
#: Of a client's request id; ids stand in logs, headers and the engine's tables.
ID_PATTERN: Final = r"\A[A-Za-z0-9_.:/+=@-]+\Z"
_ID: Final = re.compile(ID_PATTERN)
_TOO_LARGE: Final = "The request body is larger than {} bytes."


class ClientGone(Exception):
    """The client left before its request was read."""


class Exchange(msgspec.Struct):
    """Made at the door for every request and carried in the scope. ``headers``: lower-case names, the last of
    each."""

    headers: dict[bytes, bytes]
    request_id: str
    arrived: float  # monotonic seconds

    def text(self, name: bytes) -> str | None:
        """A header, None if it is missing or empty."""
        value = self.headers.get(name)
        return value.decode("latin-1").strip() or None if value else None

    def integer(self, name: bytes) -> int | None:
        """A header that must be a whole number."""
        value = self.text(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise BadRequest(
                f"The header {name.decode()} must be a whole number.", param=name.decode(), code="invalid_header"
            ) from None

    @property
    def trace_headers(self) -> dict[str, str] | None:
        """What W3C trace context the client sent, for the engine."""
        parent = self.text(b"traceparent")
        if parent is None:
            return None
        found = {"traceparent": parent}
        state = self.text(b"tracestate")
        if state is not None:
            found["tracestate"] = state
        return found


def exchange(headers: dict[bytes, bytes], id_chars: int) -> Exchange:
    """The exchange of a request with these headers: the client's own id if it is fit to be one, else a new one."""
    wanted = headers.get(b"x-request-id")
    request_id = ""
    if wanted and len(wanted) <= id_chars:
        request_id = wanted.decode("latin-1")
    if _ID.match(request_id) is None:
        request_id = os.urandom(12).hex()
    return Exchange(headers, request_id, time.monotonic())


def of_scope(scope: Scope) -> Exchange:
    """The exchange made at the door."""
    found: Any = scope[KEY]
    return found  # type: ignore[no-any-return]


async def read_body(exchange: Exchange, receive: Receive, limit: int) -> bytes:
    """The whole body of a request that must be JSON.

    Errors: WrongMediaType (also a form, as curl sends it unasked: a page of another site could send that too),
    TooLarge as soon as it is certain, ClientGone.
    """
    media = exchange.headers.get(b"content-type", b"application/json").split(b";", 1)[0].strip().lower()
    if media != b"application/json" and not media.endswith(b"+json"):
        raise WrongMediaType("The body must be JSON: send the header 'Content-Type: application/json'.")
    if exchange.headers.get(b"content-encoding", b"identity").lower() != b"identity":
        raise WrongMediaType("The body must not be compressed.", code="unsupported_content_encoding")
    length = exchange.headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > limit:
        raise TooLarge(_TOO_LARGE.format(limit), waits=b"expect" in exchange.headers)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        part = message.get("body", b"")
        size += len(part)
        if size > limit:
            raise TooLarge(_TOO_LARGE.format(limit))
        parts.append(part)
        if not message.get("more_body", False):
            return parts[0] if len(parts) == 1 else b"".join(parts)
