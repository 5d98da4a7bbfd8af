"""What the engine says in the scenarios, as token ids of the model's own tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

#: Tokens of an answer with reasoning and calls, its end-of-sequence token included.
LENGTH = 512
_PROSE = (
    "The ferry left the quay a little after six, half empty, with a crate of lamp oil lashed to the rail. By noon "
    "the wind had turned and the captain chose the longer way behind the islands, where it is deep and calm. "
)
_THOUGHT = (
    "Two gauges have to be entered. The first one gives metres already, so nothing needs converting; the second "
    "one lists three samples whose order matters. I would rather write both entries now and name the drift later. "
)
_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "enter_gauge",
        {
            "gauge": "pier-2",
            "unit": "m",
            "samples": [3.5, 3.75, 3.625],
            "note": "reads high before noon; see the log",
        },
    ),
    (
        "enter_gauge",
        {
            "gauge": "lock-9",
            "unit": "m",
            "samples": [1.25, 1.5, 1.75],
            "note": 'two lines\nof a "quoted" note \\ end',
        },
    ),
)
TOOL = {
    "type": "function",
    "function": {
        "name": "enter_gauge",
        "description": "Enter the samples of one water gauge.",
        "parameters": {
            "type": "object",
            "properties": {
                "gauge": {"type": "string"},
                "unit": {"type": "string", "enum": ["m", "ft"]},
                "samples": {"type": "array", "items": {"type": "number"}},
                "note": {"type": "string"},
            },
            "required": ["gauge", "samples"],
        },
    },
}


def _hermes() -> str:
    calls = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in _CALLS]
    return "".join(f"<tool_call>\n{call}\n</tool_call>\n" for call in calls)


def _qwen3coder() -> str:
    said = ""
    for name, arguments in _CALLS:
        said += f"<tool_call>\n<function={name}>\n"
        for key, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value)
            said += f"<parameter={key}>\n{text}\n</parameter>\n"
        said += "</function>\n</tool_call>\n"
    return said


def write_scripts(model: str, folder: Path) -> None:
    """Write ``plain.json``, ``hermes.json``, ``qwen3coder.json``: token scripts of the replay engine."""
    tokenizer = Tokenizer.from_file(str(Path(model) / "tokenizer.json"))

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    def write(name: str, tokens: list[int], finish: str) -> None:
        (folder / f"{name}.json").write_text(json.dumps({"tokens": tokens, "finish": finish}))

    write("plain", ids(_PROSE), "length")
    for name, calls in (("hermes", _hermes()), ("qwen3coder", _qwen3coder())):
        head, tail = ids("<think>\n"), ids("</think>\n\n" + calls)
        thought = (ids(_THOUGHT) * 40)[: LENGTH - 1 - len(head) - len(tail)]
        write(name, head + thought + tail, "stop")
