"""What the server tells of itself: models, health, version, load, metrics."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import toolgrammar
from toolgrammar_serving.errors import EngineLost, NotFound
from toolgrammar_serving.server.exposition import CONTENT_TYPE, exposition
from toolgrammar_serving.server.problems import ShuttingDown
from toolgrammar_serving.server.service import Service


def _json(value: Any) -> Response:
    return Response(msgspec.json.encode(value), media_type="application/json")


class InfoRoutes:
    """Plain request-to-response functions over the service."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def routes(self) -> list[Route]:
        """All of them."""
        return [
            Route("/", self.home, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/live", self.live, methods=["GET"]),
            Route("/ready", self.ready, methods=["GET"]),
            Route("/ping", self.ping, methods=["GET", "POST"]),
            Route("/version", self.version, methods=["GET"]),
            Route("/load", self.load, methods=["GET"]),
            Route("/metrics", self.metrics, methods=["GET"]),
            Route("/v1/models", self.models, methods=["GET"]),
            Route("/v1/models/{model:path}", self.model, methods=["GET"]),
        ]

    async def home(self, request: Request) -> Response:
        """Something to see for who opens the address."""
        models = self._service.config.models
        return _json({"server": "toolgrammar", "version": toolgrammar.__version__, "models": models})

    async def live(self, request: Request) -> Response:
        """The process answers."""
        return Response(status_code=200)

    async def health(self, request: Request) -> Response:
        """200 as long as the engine lives, during a drain too."""
        if not self._service.client.alive:
            raise EngineLost("The engine is not available.")
        return Response(status_code=200)

    async def ping(self, request: Request) -> Response:
        """``/health`` by another name; an endpoint of its own, for they are counted by endpoint."""
        return await self.health(request)

    async def ready(self, request: Request) -> Response:
        """200 if new requests are taken."""
        if self._service.draining:
            raise ShuttingDown("The server is shutting down.")
        return await self.health(request)

    async def version(self, request: Request) -> Response:
        """The engine's version, as vLLM's servers tell it, and ours."""
        engine = getattr(self._service.client.info, "vllm_version", "")
        return _json({"version": engine or toolgrammar.__version__, "toolgrammar": toolgrammar.__version__})

    async def load(self, request: Request) -> Response:
        """Requests in work in this process."""
        return _json({"server_load": self._service.running})

    async def metrics(self, request: Request) -> Response:
        """Prometheus text."""
        return Response(exposition(self._service), media_type=CONTENT_TYPE)

    async def models(self, request: Request) -> Response:
        """The names the model answers to."""
        return _json({"object": "list", "data": [self._model(name) for name in self._service.config.models]})

    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["model"]
        if name not in self._service.config.models:
            raise NotFound(f"The model '{name[:128]}' does not exist.", param="model")
        return _json(self._model(name))

    def _model(self, name: str) -> dict[str, Any]:
        service = self._service
        config = service.config
        return {
            "id": name,
            "object": "model",
            "created": service.started,
            "owned_by": "toolgrammar",
            "root": config.root or config.models[0],
            "parent": None,
            "max_model_len": service.max_model_len,
            "permission": [],
            "format": config.format,
        }
