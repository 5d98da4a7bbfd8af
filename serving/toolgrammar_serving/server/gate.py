"""The door: what every request passes before it is routed.

Gives each request its id (told in ``x-request-id``), asks for a key where one is needed, counts the answer. Keys
guard everything but a list of paths: what is added later is guarded unless somebody says otherwise.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from typing import Any, Final, TypeAlias

from toolgrammar_serving.server.exchange import KEY, ClientGone, Exchange, exchange
from toolgrammar_serving.server.problems import Internal, Receive, Scope, Send, Unauthorized, respond_error
from toolgrammar_serving.server.service import Service

log: Final = logging.getLogger(__name__)

App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Paths that need no key: they tell how the server is, not what it was asked.
OPEN: Final = frozenset(
    {"/", "/health", "/live", "/ready", "/ping", "/version", "/load", "/metrics", "/docs", "/openapi.json"}
)


class Gate:
    """ASGI middleware around the routes."""

    def __init__(self, app: App, service: Service, patterns: Mapping[Any, str]) -> None:
        """``patterns``: of the routes, by endpoint."""
        self._app = app
        self._patterns = patterns
        self._service = service
        self._keys = [sha256(key.encode()).digest() for key in service.config.api_keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found = exchange(dict(scope["headers"]), self._service.config.limits.id_chars)
        scope[KEY] = found
        if self._service.config.root_path:  # a path may come with it, or the proxy may have taken it away
            scope["root_path"] = self._service.config.root_path
        request_id = (b"x-request-id", found.request_id.encode())
        status = 0

        async def counted(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), request_id]
            await send(message)

        try:
            if self._admits(scope, found):
                await self._app(scope, receive, counted)
            else:
                await respond_error(counted, Unauthorized("The API key is missing or wrong."))
        except ClientGone:
            return
        except Exception:
            log.exception("request %s: an unexpected error", found.request_id)
            if status:  # too late to say anything else
                raise
            await respond_error(counted, Internal("The server failed on this request."))
        finally:
            self._count(scope, found, status)

    def _admits(self, scope: Scope, found: Exchange) -> bool:
        if not self._keys or scope["method"] == "OPTIONS":
            return True
        path = scope["path"].removeprefix(self._service.config.root_path)
        if path in OPEN:
            return True
        given = found.headers.get(b"x-api-key", b"").strip()
        authorization = found.headers.get(b"authorization", b"")
        if authorization[:7].lower() == b"bearer ":
            given = authorization[7:].strip()
        digest = sha256(given).digest()
        # All keys are compared, each in constant time: how long it takes tells nothing of any key.
        matches = [hmac.compare_digest(digest, key) for key in self._keys]
        return any(matches)

    def _count(self, scope: Scope, found: Exchange, status: int) -> None:
        """``handler`` is the route's pattern, so that what clients invent makes no labels."""
        handler = self._patterns.get(scope.get("endpoint"), "none")
        meter = self._service.meter
        group = f"{status // 100}xx" if status else "none"
        key = (handler, scope["method"] if handler != "none" else "none", group)
        meter.http[key] = meter.http.get(key, 0) + 1
        meter.http_s.add(time.monotonic() - found.arrived)
