"""The bytes of server-sent events, from parts that are made once a stream.

    data:
    {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":
    {"content":"Hi"},"finish_reason":null}]}

An event is one ``data:`` line (here broken in two) and a blank line. Per token only its text is encoded:
everything around it is the same bytes every time.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.problems import Headers, error_bytes

encode = msgspec.json.encode

DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keep-alive\n\n"
#: ``x-accel-buffering``: nginx passes the pieces on as they come.
HEADERS: Final[Headers] = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]

# Characters that are ends of lines to Unicode but not to the event stream: some readers split at them all the
# same.
_LINE_ENDS: Final = (
    (b"\xe2\x80\xa8", b"\\u2028"),
    (b"\xe2\x80\xa9", b"\\u2029"),
    (b"\xc2\x85", b"\\u0085"),
)


def quoted(text: str) -> bytes:
    """``text`` as a JSON string in which no reader finds the end of a line. ASCII needs ``encode`` alone."""
    try:
        data = encode(text)
    except UnicodeEncodeError:
        data = safe_json(text)
    return lined(data) if b"\xe2\x80" in data or b"\xc2\x85" in data else data


def lined(data: bytes) -> bytes:
    """JSON without characters that some readers take for the end of a line."""
    for raw, escaped in _LINE_ENDS:
        if raw in data:
            data = data.replace(raw, escaped)
    return data


def safe_json(value: Any) -> bytes:
    """``value`` as JSON, whatever its texts hold: half of a surrogate pair becomes U+FFFD."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(_whole(value))


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_whole(key): _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list | tuple) else value


def error_event(error: ServingError) -> bytes:
    """The event that ends a stream that cannot go on; ``DONE`` follows."""
    return b"data: %b\n\n" % lined(error_bytes(error))


class Frame:
    """The parts of a stream's events that never change: ``prefix`` up to the choices' bracket, and behind it.

    ``prefix`` + ``choices`` JSON without brackets + ``SUFFIX`` is an event.
    """

    SUFFIX: Final = b"]}\n\n"

    def __init__(self, response_id: str, kind: str, created: int, model: str) -> None:
        self.response_id = response_id
        self.created = created
        self.model = model
        self.common = b'data: {"id":%b,"object":"%b","created":%d,"model":%b,' % (
            encode(response_id),
            kind.encode(),
            created,
            quoted(model),
        )
        self.prefix = self.common + b'"choices":['

    def choice_head(self, index: int) -> bytes:
        """Up to a chat choice's delta."""
        return b'%b{"index":%d,"delta":{' % (self.prefix, index)

    def usage(self, usage: dict[str, Any], fingerprint: str | None = None) -> bytes:
        """The event with the token counts, which has no choices."""
        more = b'"system_fingerprint":%b,' % encode(fingerprint) if fingerprint else b""
        return b'%b%b"choices":[],"usage":%b}\n\n' % (self.common, more, encode(usage))
