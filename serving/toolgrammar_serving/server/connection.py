"""The open connection of one response, for routes that write many small pieces.

A response starts and ends by ordinary ASGI messages. Between them a stream's pieces go straight to the socket, as
HTTP/1.1 chunks, where the server is uvicorn with ``DirectProtocol``; everywhere else they go through
``send``, with the same bytes in the body. What happens to the connection meanwhile is told to one ``Watcher``.
"""

from __future__ import annotations

from toolgrammar_serving.server.direct_connection import DirectConnection
from toolgrammar_serving.server.direct_protocol import KEY
from toolgrammar_serving.server.plain_connection import Connection, PlainConnection, Watcher
from toolgrammar_serving.server.problems import Receive, Scope, Send

__all__ = ["Connection", "PlainConnection", "Watcher", "connection"]


def connection(scope: Scope, receive: Receive, send: Send) -> Connection:
    """The connection of the request in ``scope``; its body has been read."""
    made = (scope.get("extensions") or {}).get(KEY)
    if isinstance(made, DirectConnection):
        made.attach(send)
        return made
    return PlainConnection(receive, send)
