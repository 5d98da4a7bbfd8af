"""Errors of the command line: stable codes, each with its exit code and a page for ``toolgrammar help CODE``.

Exit codes: 0 ok, 1 findings, 2 usage or configuration, 3 unknown model or format, 4 unreadable input,
5 internal error, 130 interrupted. When several apply, the highest of 1 to 5 is given.
"""

from __future__ import annotations

from typing import Final, NamedTuple

OK, FINDINGS, USAGE, UNKNOWN, UNREADABLE, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

EXIT_CODES: Final[dict[int, str]] = {
    OK: "all is well",
    FINDINGS: "findings: malformed or incomplete calls, calls to tools nobody offered, failing cases",
    USAGE: "usage or configuration: an option, grammar, tools, prompt or tokenizer that cannot be used",
    UNKNOWN: "unknown model or format",
    UNREADABLE: "unreadable input: a file, line or record that cannot be read; the rest was read",
    INTERNAL: "internal error: a bug in toolgrammar",
    INTERRUPTED: "interrupted with Ctrl-C",
}


class Page(NamedTuple):
    """What an error code means and what to do."""

    title: str
    exit: int
    text: str


PAGES: Final[dict[str, Page]] = {
    "E001": Page(
        "wrong usage",
        USAGE,
        "An option or argument is unknown, missing, or has a value that is not allowed. The message "
        "names it; 'toolgrammar help COMMAND' lists the options of a command.",
    ),
    "E002": Page(
        "broken grammar",
        USAGE,
        "The grammar file cannot be read or is not a usable grammar. The message gives file, line and "
        "column, with a caret under the place. The language: docs/grammar-language.md; a format to copy "
        "from: 'toolgrammar grammar show hermes'. Of a response template (--template) the message names "
        "field and key: docs/response-templates.md.",
    ),
    "E003": Page(
        "broken tools file",
        USAGE,
        "--tools takes a JSON file with one list of tools, in the shape of OpenAI "
        '({"type": "function", "function": {"name": ..., "parameters": ...}}), Anthropic '
        '({"name": ..., "input_schema": ...}), MCP, or {"name": ..., "parameters": ...}.',
    ),
    "E004": Page(
        "broken prompt file",
        USAGE,
        "--prompt takes a UTF-8 text file: the prompt as the model saw it. Only its tail matters: it "
        "decides whether the output starts in reasoning, in content or in a call section.",
    ),
    "E005": Page(
        "no usable tokenizer",
        USAGE,
        "A record has token_ids. They need --tokenizer DIR, a directory with tokenizer.json, and the "
        "package 'tokenizers' (pip install tokenizers). A record that has nothing else is left out, "
        "everything else is read.",
    ),
    "E006": Page(
        "output cannot be written",
        USAGE,
        "The file of -o, or stdout, cannot be written: a directory is missing or not writable, or the "
        "disk is full.",
    ),
    "E007": Page(
        "no model given",
        USAGE,
        "Nothing says which format the text is in. Give --model NAME (a format, a model id, a peer's "
        "parser name or a model directory) or --grammar FILE; in JSONL, a record may name it itself in "
        "'format' or 'model'. 'toolgrammar detect FILE' ranks the formats for a text. The record was left "
        "out, everything else was read.",
    ),
    "E012": Page(
        "unknown model or format",
        UNKNOWN,
        "No format, alias, model name or directory of that name is known. 'toolgrammar formats' lists "
        "the formats, 'toolgrammar models' the names they go by, 'toolgrammar detect FILE' looks at a "
        "text, a chat template or a tokenizer directory. A format that is not there can be written: "
        "--grammar FILE.",
    ),
    "E021": Page(
        "unreadable file",
        UNREADABLE,
        "An input file does not exist, is a directory, or may not be read. The other inputs were read.",
    ),
    "E022": Page(
        "not UTF-8",
        UNREADABLE,
        "Input is decoded as strict UTF-8, so that spans mean the same everywhere. The message gives "
        "the byte offset in the file. In JSONL and SSE only that line is lost; a text file is not "
        "parsed any further.",
    ),
    "E023": Page(
        "line is not a record",
        UNREADABLE,
        "A line of a JSONL file (or the data of an SSE event) is not one JSON object. The line was left "
        "out, everything else was read.",
    ),
    "E024": Page(
        "no text in the record",
        UNREADABLE,
        "The record has no text under the given --field (default: the first present of text, raw, "
        "output, content, then chunks, token_ids), or it is not a string. The record was left out, "
        "everything else was read. In a recorded stream only the part of the chunk that has the wrong "
        "type is left out; the record names it among its 'problems'.",
    ),
    "E025": Page(
        "server reported an error",
        UNREADABLE,
        "A recorded stream holds an error object instead of a delta. What came before it was parsed; the "
        "records that were open then name it among their 'problems'.",
    ),
    "E026": Page(
        "not a case",
        UNREADABLE,
        "A line of a case file lacks format, text or expect, or one of them has the wrong shape. The "
        "schema is in the documentation of toolgrammar.testing.",
    ),
    "E027": Page(
        "unusable record",
        UNREADABLE,
        "A record names its own tools, format, model or starts_in, and one of them cannot be used; or its "
        "token_ids are no list of ids that the tokenizer has. The record was left out, everything else was "
        "read. Options of the command line replace what a record says.",
    ),
    "E090": Page(
        "internal error",
        INTERNAL,
        "toolgrammar itself failed. Model output must never do that: please report the message, the "
        "trace above it and, if you may, the input.",
    ),
}


class CliError(Exception):
    """An error with a code of ``PAGES``: it ends the command, or is shown and counted in a record."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        self.code = code
        self.message = message
        self.hint = hint
        super().__init__(message)

    @property
    def exit(self) -> int:
        """The exit code of this error."""
        return PAGES[self.code].exit


class RecordError(CliError):
    """An error of one record: it is shown and counted, and the other records are read, whatever its exit code."""


def from_library(error: Exception) -> CliError | None:
    """The library's error as one of ours, or None if it is none we expect."""
    from toolgrammar.errors import GrammarError, ToolgrammarError, ToolsError, UnknownModelError

    if isinstance(error, UnknownModelError):
        return CliError("E012", str(error), error.hint)
    if isinstance(error, ToolsError):
        return CliError("E003", str(error), error.hint)
    if isinstance(error, GrammarError):
        return CliError("E002", str(error))
    if isinstance(error, ToolgrammarError):
        return CliError("E001", str(error), error.hint)
    return None
