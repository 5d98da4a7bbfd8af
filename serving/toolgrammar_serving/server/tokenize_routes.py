"""POST /tokenize and /detokenize, also under /v1."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from toolgrammar_serving.server.body import TokenId, read, refuse
from toolgrammar_serving.server.chat_body import ChatBody, check_conversation, conversation
from toolgrammar_serving.server.chat_route import prepare
from toolgrammar_serving.server.exchange import of_scope, read_body
from toolgrammar_serving.server.problems import Receive, Scope, Send, respond
from toolgrammar_serving.server.service import Service
from toolgrammar_serving.server.sse import safe_json


class TokenizeText(msgspec.Struct, kw_only=True):
    """A text to be encoded as /v1/completions encodes it."""

    prompt: str
    model: str | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None


class TokenizeChat(ChatBody, kw_only=True):
    """A conversation to be encoded as /v1/chat/completions encodes it."""

    return_token_strs: bool | None = None


class Detokenize(msgspec.Struct, kw_only=True):
    """Token ids to be decoded, special tokens too."""

    tokens: list[TokenId]
    model: str | None = None
    skip_special_tokens: bool | None = None


_ABSENT: Final = msgspec.Raw(b"null")


class _Which(msgspec.Struct):
    """Which members a body has. null is as good as absent."""

    prompt: msgspec.Raw = _ABSENT
    messages: msgspec.Raw = _ABSENT


_WHICH: Final = msgspec.json.Decoder(_Which)
_TEXT: Final = msgspec.json.Decoder(TokenizeText)
_CHAT: Final = msgspec.json.Decoder(TokenizeChat)
_TOKENS: Final = msgspec.json.Decoder(Detokenize)


class TokenizeRoute:
    """Text or conversation to token ids."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        data = await read_body(of_scope(scope), receive, service.config.limits.body_bytes)
        which = read(_WHICH, data)
        if (which.prompt == _ABSENT) == (which.messages == _ABSENT):
            raise refuse("Either prompt or messages is needed.", "prompt", "missing_parameter")
        with service.request():
            if which.messages == _ABSENT:
                text = read(_TEXT, data)
                service.model(text.model)
                ids = await service.text.encode(
                    text.prompt, add_special_tokens=text.add_special_tokens is not False
                )
                strings = text.return_token_strs
            else:
                chat = read(_CHAT, data)
                service.model(chat.model)
                ids = await self._conversation(chat)
                strings = chat.return_token_strs
        found: dict[str, Any] = {
            "count": len(ids),
            "max_model_len": service.max_model_len,
            "tokens": ids,
            "token_strs": service.text.token_strings(ids) if strings else None,
        }
        await respond(send, 200, safe_json(found))

    async def _conversation(self, body: TokenizeChat) -> list[int]:
        service = self._service
        check_conversation(body, service.config)
        request = conversation(body, request_id="tokenize", add_special_tokens=bool(body.add_special_tokens))
        return (await prepare(service.chat, request)).text.prompt_token_ids


class DetokenizeRoute:
    """Token ids to text."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        body = read(_TOKENS, await read_body(of_scope(scope), receive, service.config.limits.body_bytes))
        service.model(body.model)
        text = service.text.decode(body.tokens, skip_special_tokens=bool(body.skip_special_tokens))
        await respond(send, 200, safe_json({"prompt": text}))
