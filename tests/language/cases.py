"""Reads ``data/mistakes.txt``: wrong grammars and the whole message of each."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
#: Files that a mistake can import.
OTHERS = {
    "itself.tg": "@import itself\nx : content\n",
    "one.tg": "both : content\n",
    "two.tg": "both : reasoning\n",
    "broken.tg": "broken : content (\n",
}


def mistakes() -> list[tuple[str, str, str]]:
    """(name of the error, grammar, message)."""
    cases = []
    for case in (DATA / "mistakes.txt").read_text(encoding="utf-8").split("=== ")[1:]:
        kind, _, rest = case.partition("\n")
        text, _, message = rest.partition("--- message\n")
        cases.append((kind, text, message.rstrip("\n")))
    return cases


def load(path: str, importer: str) -> tuple[str, str] | None:
    """The other files."""
    file = f"{path}.tg"
    return (file, OTHERS[file]) if file in OTHERS else None
