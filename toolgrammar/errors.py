"""Every exception this library raises.

ToolgrammarError
├── GrammarError          a grammar file or node tree that cannot be used (file, line, column, caret)
│   ├── GrammarSyntaxError    the text is not in the grammar language
│   ├── UnknownRuleError      a name nobody defines
│   ├── TemplateError         a response template that cannot be used, in ``toolgrammar.templates``
│   └── AmbiguityError ...    definition-time checks, see ``toolgrammar.machine.checks``
├── UnknownModelError     no format, alias, model id or directory of that name
└── ToolsError            a list of tools that is in no known shape

Parsing model output never raises: what is wrong there is a ``Diagnostic`` or a call's status.
"""

from __future__ import annotations

from msgspec import Struct


class ToolgrammarError(Exception):
    """Base of all errors; ``hint`` names the next step."""

    hint: str = ""


class Where(Struct, frozen=True):
    """A place in a grammar file. Lines and columns count from 1."""

    file: str
    line: int
    column: int
    text: str

    def caret(self) -> str:
        """The line with a caret under the column."""
        shown = self.text.rstrip("\n")
        pad = "".join("\t" if char == "\t" else " " for char in shown[: self.column - 1])
        return f"  {self.file}:{self.line}:{self.column}\n    {shown}\n    {pad}^"


class GrammarError(ToolgrammarError):
    """A grammar that cannot be used. The message says what is wrong, where, and what would be right."""

    def __init__(self, message: str, *, rule: str = "", where: Where | None = None, hint: str = "") -> None:
        self.message = message
        self.rule = rule
        self.where = where
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message + (f" (in rule {self.rule!r})" if self.rule else "")]
        if self.where is not None:
            parts.append(self.where.caret())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class GrammarSyntaxError(GrammarError):
    """The text is not in the grammar language."""


class UnknownRuleError(GrammarError):
    """A rule, parameter or import that nobody defines."""


class UnmarkedTextError(GrammarError):
    """Free text followed by something whose beginning cannot be recognised."""


class EmptyRepeatError(GrammarError):
    """A repeated item that can be empty: the repeat would never end."""


class AmbiguityError(GrammarError):
    """Two ways to go on that begin with the same marker, or an arm that can never be reached."""


class UnboundedRecursionError(GrammarError):
    """A rule that refers to itself other than at its end."""


class BadPatternError(GrammarError):
    """A regular expression that is invalid or could back-track without bound."""


class MisplacedNodeError(GrammarError):
    """A node that needs something around it that is not there, such as a value outside a call."""


class UnknownModelError(ToolgrammarError):
    """No format, alias, model id or model directory of that name."""

    def __init__(self, model: str, near: tuple[str, ...] = (), reason: str = "") -> None:
        self.model = model
        self.near = near
        self.hint = (f"did you mean {', '.join(near)}? " if near else "") + (
            "'toolgrammar formats' lists every name; 'toolgrammar detect FILE' looks at a text, "
            "a chat template or a tokenizer directory"
        )
        super().__init__(f"no grammar for model {model!r}" + (f": {reason}" if reason else ""))


class ToolsError(ToolgrammarError):
    """A list of tools that is in no known shape."""

    def __init__(self, message: str) -> None:
        self.hint = "give a list of OpenAI, Anthropic or MCP tools, or of {name, parameters} objects"
        super().__init__(message)
