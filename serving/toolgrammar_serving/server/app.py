"""Puts the application together: routes, the door around them, one shape for all errors."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

import toolgrammar
from toolgrammar_serving.errors import ServingError
from toolgrammar_serving.server.chat_route import ChatRoute
from toolgrammar_serving.server.completion_route import CompletionRoute
from toolgrammar_serving.server.config import ServerConfig
from toolgrammar_serving.server.gate import Gate
from toolgrammar_serving.server.info_routes import InfoRoutes
from toolgrammar_serving.server.openapi import description
from toolgrammar_serving.server.problems import Headers, error_bytes, error_headers, of_status
from toolgrammar_serving.server.service import ChatLayer, EngineView, Service, TextLayer
from toolgrammar_serving.server.tokenize_routes import DetokenizeRoute, TokenizeRoute


def create_app(chat: ChatLayer, text: TextLayer, client: EngineView, config: ServerConfig) -> FastAPI:
    """The server's application over the layers below. ``app.state.service`` is the state that ``run.Server``
    drains."""
    service = Service(chat, text, client, config)
    app = FastAPI(
        title="toolgrammar",
        version=toolgrammar.__version__,
        docs_url="/docs" if config.docs else None,
        openapi_url="/openapi.json" if config.docs else None,
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.service = service
    routes = [
        Route("/v1/chat/completions", ChatRoute(service), methods=["POST"]),
        Route("/v1/completions", CompletionRoute(service), methods=["POST"]),
        Route("/tokenize", TokenizeRoute(service), methods=["POST"]),
        Route("/v1/tokenize", TokenizeRoute(service), methods=["POST"]),
        Route("/detokenize", DetokenizeRoute(service), methods=["POST"]),
        Route("/v1/detokenize", DetokenizeRoute(service), methods=["POST"]),
        *InfoRoutes(service).routes(),
    ]
    app.router.routes[:0] = routes
    app.add_middleware(Gate, service=service, patterns={route.endpoint: route.path for route in routes})
    if config.allowed_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=config.allowed_origins,
            allow_methods=config.allowed_methods,
            allow_headers=config.allowed_headers,
            allow_credentials=config.allow_credentials,
            expose_headers=["x-request-id"],
        )
    app.openapi = lambda: description(config.root_path)  # type: ignore[method-assign]
    _tell_errors(app, service)
    return app


def _tell_errors(app: FastAPI, service: Service) -> None:
    """All errors in one shape; what the framework raises, too."""

    async def serving_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, ServingError)
        headers = error_headers(error, service.config.retry_after_s)
        return _response(error, headers)

    async def http_error(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        message = str(error.detail)
        if error.status_code == 404:
            message = f"There is no {request.method} {request.url.path[:256]}."
        if error.status_code == 405:
            message = f"{request.method} is not allowed on {request.url.path[:256]}."
        headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
        return _response(of_status(error.status_code, message), headers)

    app.add_exception_handler(ServingError, serving_error)
    app.add_exception_handler(HTTPException, http_error)


def _response(error: ServingError, headers: Headers) -> Response:
    response = Response(error_bytes(error), error.status, media_type="application/json")
    response.raw_headers += headers
    return response
