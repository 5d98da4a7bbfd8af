"""POST /v1/completions."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from toolgrammar_serving.server import completion_body
from toolgrammar_serving.server.body import read
from toolgrammar_serving.server.completion_stream import CompletionStream
from toolgrammar_serving.server.completion_whole import CompletionWhole
from toolgrammar_serving.server.connection import connection
from toolgrammar_serving.server.echo import Echo
from toolgrammar_serving.server.exchange import of_scope, read_body
from toolgrammar_serving.server.problems import Receive, Scope, Send, respond
from toolgrammar_serving.server.service import Service
from toolgrammar_serving.server.sse import Frame


class CompletionRoute:
    """An ASGI application: errors are raised, and told by the application around it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        exchange = of_scope(scope)
        data = await read_body(exchange, receive, service.config.limits.body_bytes)
        body = read(completion_body.DECODER, data)
        model = service.model(body.model)
        response_id = f"cmpl-{body.request_id or exchange.request_id}"
        requests, options = completion_body.completion_requests(body, exchange, service.config, response_id)
        n = requests[0].n
        with service.request(), service.tracer.span("text_completion", exchange, model, *requests) as span:
            prepared = await asyncio.gather(*[service.text.prepare(request) for request in requests])
            for request in requests:
                service.meter.max_tokens.add(request.sampling.max_tokens or 0)
                service.meter.n.add(request.n)
            way = connection(scope, receive, send)
            if way.is_lost:
                return
            frame = Frame(response_id, "text_completion", int(time.time()), model)
            echoes = [
                Echo(service.text, request.prompt, ready.prompt_token_ids)
                for request, ready in zip(requests, prepared, strict=True)
            ]
            slow_s = service.config.slow_reader_s
            arguments = (options, frame, service.meter, echoes, way, len(requests) * n, n, slow_s)
            answer = CompletionStream(*arguments) if body.stream else CompletionWhole(*arguments)
            with service.answering(answer, span):
                self._start(answer, prepared, echoes)
                await self._send(answer, send)

    def _start(self, answer: CompletionStream | CompletionWhole, prepared: list[Any], echoes: list[Echo]) -> None:
        """Start every prompt. If one cannot be started the answer ends, and with it those that were."""
        n = answer.n
        for number, ready in enumerate(prepared):
            generation = self._service.text.start(ready, answer.sinks[number * n : number * n + n])
            echoes[number].generation = generation
            answer.run(generation)

    async def _send(self, answer: CompletionStream | CompletionWhole, send: Send) -> None:
        if isinstance(answer, CompletionStream):
            await answer.send()
            return
        await answer.over
        if answer.error is not None:
            raise answer.error
        await respond(send, 200, answer.response())
