"""POST /v1/chat/completions."""

from __future__ import annotations

import time

from toolgrammar_serving.chat import ChatRequest
from toolgrammar_serving.errors import BadRequest
from toolgrammar_serving.server import chat_body
from toolgrammar_serving.server.body import read
from toolgrammar_serving.server.chat_stream import ChatStream
from toolgrammar_serving.server.chat_whole import ChatWhole
from toolgrammar_serving.server.connection import connection
from toolgrammar_serving.server.echo import prompt_logprobs
from toolgrammar_serving.server.exchange import of_scope, read_body
from toolgrammar_serving.server.problems import Receive, Scope, Send, respond
from toolgrammar_serving.server.service import ChatLayer, PreparedChat, Service
from toolgrammar_serving.server.sse import Frame


class ChatRoute:
    """An ASGI application: errors are raised, and told by the application around it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        exchange = of_scope(scope)
        data = await read_body(exchange, receive, service.config.limits.body_bytes)
        body = read(chat_body.DECODER, data)
        model = service.model(body.model)
        response_id = f"chatcmpl-{body.request_id or exchange.request_id}"
        request, options = chat_body.chat_request(body, exchange, service.config, response_id)
        with service.request(), service.tracer.span("chat", exchange, model, request) as span:
            prepared = await prepare(service.chat, request)
            service.meter.max_tokens.add(request.sampling.max_tokens or 0)
            service.meter.n.add(request.n)
            way = connection(scope, receive, send)
            if way.is_lost:
                return
            frame = Frame(response_id, "chat.completion.chunk", int(time.time()), model)
            arguments = (options, frame, service.meter, way, request.n, request.n, service.config.slow_reader_s)
            answer = ChatStream(*arguments) if request.stream else ChatWhole(*arguments)
            with service.answering(answer, span):
                await self._answer(answer, prepared, send)

    async def _answer(self, answer: ChatStream | ChatWhole, prepared: PreparedChat, send: Send) -> None:
        chat = self._service.chat
        answer.parsed = prepared
        if isinstance(answer, ChatStream):
            answer.open(prepared.text.prompt_token_ids)
            answer.run(chat.start(prepared, answer.sinks))
            await answer.send()
            return
        answer.run(chat.start(prepared, answer.sinks))
        await answer.over
        if answer.error is not None:
            raise answer.error
        prompt = None
        if answer.options.prompt_logprobs:
            prompt = prompt_logprobs(self._service.text.prompt_logprobs(answer.generations[0]))
        await respond(send, 200, answer.response(prepared.text.prompt_token_ids, prompt))


async def prepare(chat: ChatLayer, request: ChatRequest) -> PreparedChat:
    """The chat layer's preparation. Errors: BadRequest, also for what is nested too deeply to be written."""
    try:
        prepared: PreparedChat = await chat.prepare(request)
    except RecursionError:
        raise BadRequest("The request is nested too deeply.", code="nested_too_deeply") from None
    return prepared
