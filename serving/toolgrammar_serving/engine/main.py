"""The command: ``python -m toolgrammar_serving.engine MODEL_DIR --handshake tcp://HOST:PORT``."""

from __future__ import annotations

import logging
import sys


def main(argv: list[str] | None = None) -> int:
    """Run an engine; the exit status."""
    from toolgrammar_serving.engine.options import parse

    options = parse(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(level=logging.INFO, format="engine %(levelname)s %(message)s", stream=sys.stderr)
    from toolgrammar_serving.engine.loading import offline

    offline()
    try:
        from toolgrammar_serving.engine.lifecycle import serve
    except ImportError as problem:
        print(f"engine: {problem}. It needs the extra: pip install 'toolgrammar[engine]'", file=sys.stderr)
        return 1
    for chatty in ("httpx", "transformers", "filelock", "ContinuousBatchingLogger"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return serve(options)
