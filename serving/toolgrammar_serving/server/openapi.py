"""The description of the API: for /docs and for who generates clients. Request bodies come from the structs that
decode them, so it cannot say anything else than the server does."""

from __future__ import annotations

from typing import Any, Final

import msgspec

import toolgrammar
from toolgrammar_serving.server.chat_body import ChatBody
from toolgrammar_serving.server.completion_body import CompletionBody
from toolgrammar_serving.server.tokenize_routes import Detokenize, TokenizeChat, TokenizeText

#: Endpoints with a body: path, what it does, the structs it reads, the media types it answers with.
_POSTS: Final = (
    ("/v1/chat/completions", "Continue a conversation", (ChatBody,), ("application/json", "text/event-stream")),
    ("/v1/completions", "Continue a text", (CompletionBody,), ("application/json", "text/event-stream")),
    ("/tokenize", "Text or conversation to token ids", (TokenizeText, TokenizeChat), ("application/json",)),
    ("/detokenize", "Token ids to text", (Detokenize,), ("application/json",)),
)
_GETS: Final = (
    ("/v1/models", "The names of the model"),
    ("/v1/models/{model}", "One name of the model"),
    ("/health", "200 if the engine lives"),
    ("/live", "200 if the process answers"),
    ("/ready", "200 if new requests are taken"),
    ("/ping", "As /health"),
    ("/version", "The engine's version, and the server's"),
    ("/load", "Requests in work"),
    ("/metrics", "Prometheus metrics"),
)
_ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code", "status"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "string"},
                "status": {"type": "integer"},
            },
        }
    },
}


def description(root_path: str) -> dict[str, Any]:
    """The OpenAPI document."""
    bodies = [body for _, _, found, _ in _POSTS for body in found]
    references, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    by_body = dict(zip(bodies, references, strict=True))
    components["Error"] = _ERROR
    paths: dict[str, Any] = {}
    for path, summary, found, media in _POSTS:
        schemas = [by_body[body] for body in found]
        schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
        paths[path] = {
            "post": {
                "summary": summary,
                "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
                "responses": {
                    "200": {"description": "OK", "content": {name: {} for name in media}},
                    **_failures(),
                },
            }
        }
    for path, summary in _GETS:
        paths[path] = {"get": {"summary": summary, "responses": {"200": {"description": "OK"}, **_failures()}}}
        if "{model}" in path:
            parameter = {"name": "model", "in": "path", "required": True, "schema": {"type": "string"}}
            paths[path]["get"]["parameters"] = [parameter]
    return {
        "openapi": "3.1.0",
        "info": {"title": "toolgrammar", "version": toolgrammar.__version__},
        "servers": [{"url": root_path or "/"}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _failures() -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"default": {"description": "An error", "content": content}}
