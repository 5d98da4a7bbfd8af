"""What can go wrong between a request and its answer.

    ServingError
    ├── BadRequest          the client's fault; ``param`` names the field                          HTTP 400
    │   └── TooLong         prompt, or prompt and wanted output, exceed the model's context        HTTP 400
    ├── NotFound            no such model                                                          HTTP 404
    ├── Overloaded          more requests than the server takes; ``retry_after_s``                 HTTP 429
    ├── EngineLost          the engine died or is not there yet                                    HTTP 503
    ├── EngineBusy          the engine asks to try again (paused)                                  HTTP 503
    └── EngineFailed        the engine gave up on this request                                     HTTP 500

Messages are for clients: no paths, no addresses, no secrets. ``code`` is a stable word for programs.
"""

from __future__ import annotations


class ServingError(Exception):
    """Base of all; ``status`` is the HTTP status that fits, ``code`` a stable machine word."""

    status = 500
    code = "internal_error"
    type = "InternalServerError"

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        if code is not None:
            self.code = code


class BadRequest(ServingError):
    """The request cannot be served as it is."""

    status = 400
    code = "invalid_request"
    type = "BadRequestError"


class TooLong(BadRequest):
    """The prompt, or what is wanted behind it, does not fit the model's context."""

    code = "context_length_exceeded"


class NotFound(ServingError):
    """No such model."""

    status = 404
    code = "model_not_found"
    type = "NotFoundError"


class Overloaded(ServingError):
    """The server takes no more work now."""

    status = 429
    code = "overloaded"
    type = "RateLimitError"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class EngineLost(ServingError):
    """The engine is gone, or not ready."""

    status = 503
    code = "engine_unavailable"
    type = "ServiceUnavailableError"


class EngineBusy(EngineLost):
    """The engine takes no work at the moment; a later try may succeed."""

    code = "engine_paused"


class EngineFailed(ServingError):
    """The engine ended this request with an error."""

    code = "engine_error"
