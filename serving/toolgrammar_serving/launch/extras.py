"""Whether the packages of the extra ``serve`` are there, before they are imported."""

from __future__ import annotations

import importlib.util
from typing import Final

from toolgrammar_serving.launch.problems import LaunchError

#: Module, and the package that has it.
_SERVE: Final = {
    "fastapi": "fastapi",
    "httptools": "httptools",
    "jinja2": "jinja2",
    "prometheus_client": "prometheus-client",
    "tokenizers": "tokenizers",
    "uvicorn": "uvicorn",
    "zmq": "pyzmq",
}


def need_serving() -> None:
    """Raises ``LaunchError`` that names what is missing."""
    missing = [package for module, package in _SERVE.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise LaunchError(f"a server needs {', '.join(missing)}", "pip install 'toolgrammar[serve]'")
