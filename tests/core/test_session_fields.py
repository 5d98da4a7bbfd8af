"""What a session's copies and pickles carry: every field is in one of the tables, or made anew by ``set_path``."""

from __future__ import annotations

import pytest

from toolgrammar import Parser
from toolgrammar.machine import session

#: Given to the constructor, or named in ``copy``.
NAMED = {
    "call", "collected", "encode", "program", "regs", "repair", "scanner", "sink", "spec", "state", "tools",
    "trace",
}  # fmt: skip
#: Worked out by ``set_path``.
PATH = {"clear", "direct", "edge", "event", "guard", "plain", "quiet", "silent", "straight"}


def test_the_tables_of_fields_are_complete() -> None:
    fields = getattr(Parser("hermes")._session, "__dict__", None)
    if fields is None:
        pytest.skip("a compiled session has no dictionary of its fields")
    assert set(fields) == set(session.PLAIN) | set(session.LISTS) | NAMED | PATH
    assert len(fields) == len(session.PLAIN) + len(session.LISTS) + len(NAMED) + len(PATH)
