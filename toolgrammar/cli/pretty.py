"""A message for a person: reasoning, content, each call with its arguments, and what was remarked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from toolgrammar.cli.terminal import Paint, visible
from toolgrammar.message import Call, Message

_STATUS_STYLE = {"complete": "good", "incomplete": "warn", "malformed": "error"}
_SEVERITY_STYLE = {"info": "dim", "warn": "warn", "error": "error"}
_AROUND = 24
_WIDE = 88


def render(message: Message, title: str, paint: Paint, raw: str | None = None, offered: Sequence[str] = ()) -> str:
    """The message as text; ``raw`` (the raw output) lets diagnostics show what they are about.

    ``offered``: names of tools. If no call is there, but the content names one of them, that is said: it is
    what a wrong format looks like.
    """
    blocks = [paint("head", title) + paint("dim", f"  {message.grammar}")]
    if message.reasoning is not None:
        blocks.append(_block(paint("name", "reasoning"), message.reasoning, paint, "reason"))
    if message.content is not None:
        blocks.append(_block(paint("name", "content"), message.content, paint))
    blocks += [_call(call, paint) for call in message.calls]
    if message.reasoning is None and message.content is None and not message.calls:
        blocks.append(paint("dim", "nothing was said"))
    if message.tail.strip():
        blocks.append(_block(paint("name", "tail") + paint("dim", "  read as neither"), message.tail, paint))
    if not message.calls and (named := _named(message.content or "", offered)):
        blocks.append(
            f"{paint('warn', 'no call')}: {message.grammar} finds none, but the text names {visible(named)}; "
            "'toolgrammar detect FILE' ranks other formats"
        )
    if message.unfinished:
        blocks.append(paint("warn", "unfinished") + ": the output ended inside a call or call section")
    blocks += list(_diagnostics(message, paint, raw))
    return "\n".join(blocks) + "\n"


def _named(content: str, offered: Sequence[str]) -> str:
    """The first offered tool that ``content`` names as a call would."""
    found = (name for name in offered if re.search(rf'"{re.escape(name)}"|\b{re.escape(name)}\(', content))
    return next(found, "")


def _block(head: str, text: str, paint: Paint, style: str = "") -> str:
    lines = visible(text).split("\n")
    return "\n".join([head, *(f"  {paint(style, line) if style else line}".rstrip(" ") for line in lines)])


def _call(call: Call, paint: Paint) -> str:
    head = f"{paint('name', f'call {call.index}')}  {paint('head', visible(call.name))}"
    if call.status != "complete":
        head += f"  {paint(_STATUS_STYLE[call.status], call.status)}"
    if not call.known:
        head += f"  {paint('warn', 'not offered')}"
    head += paint("dim", f"  {visible(call.id)}")
    if call.arguments is None:
        return _block(head, call.arguments_raw or "(no arguments yet)", paint)
    if not call.arguments:
        return f"{head}\n  {paint('dim', 'no arguments')}"
    return "\n".join([head, *(_argument(key, value, paint) for key, value in call.arguments.items())])


def _argument(key: str, value: Any, paint: Paint) -> str:
    """One argument: as JSON, but a string of several lines as these lines."""
    head = f"  {paint('name', visible(key))}: "
    if isinstance(value, str) and "\n" in value.rstrip("\n"):
        bar = paint("dim", "|")
        return "\n".join([head.rstrip(), *(f"    {bar} {line}".rstrip() for line in visible(value).split("\n"))])
    text = json.dumps(value, ensure_ascii=False)
    if len(text) > _WIDE and isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False, indent=2).replace("\n", "\n  ")
    return head + visible(text)


def _diagnostics(message: Message, paint: Paint, raw: str | None) -> Iterator[str]:
    for found in message.diagnostics:
        where = f"{found.start}-{found.end}"
        code = paint(_SEVERITY_STYLE[found.severity], found.code)
        line = f"{code} {paint('dim', where)} {visible(found.message)}"
        if raw is not None:
            line += f"\n  {excerpt(raw, found.start, found.end, paint)}"
        yield line


def excerpt(raw: str, start: int, end: int, paint: Paint) -> str:
    """The place ``start``-``end`` of the raw output with some text around it, on one line."""
    before = ("…" if start > _AROUND else "") + raw[max(0, start - _AROUND) : start]
    inside = raw[start:end]
    if len(inside) > 3 * _AROUND:
        inside = inside[:_AROUND] + " … " + inside[-_AROUND:]
    after = raw[end : end + _AROUND] + ("…" if end + _AROUND < len(raw) else "")
    return paint("dim", one_line(before)) + paint("head", one_line(inside)) + paint("dim", one_line(after))


def one_line(text: str) -> str:
    """``text`` with line ends and tabs spelled out."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")
