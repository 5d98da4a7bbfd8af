"""Engines over tiny models, one for all tests of a module that can share it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import serving_engine_models

pytest.importorskip("torch")
pytest.importorskip("transformers")

from serving_engine_thread import Running, running


@pytest.fixture(scope="session")
def qwen_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of 512 tokens of context."""
    return serving_engine_models.model_directory(tmp_path_factory.mktemp("models") / "qwen3")


@pytest.fixture(scope="module")
def qwen(qwen_directory: Path) -> Iterator[Running]:
    """An engine over it."""
    with running(qwen_directory) as one:
        yield one
