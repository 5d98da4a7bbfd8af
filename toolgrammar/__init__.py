"""toolgrammar: what language models say, as tool calls, reasoning and text that programs can trust.

Layout: ``combinators`` is the algebra, ``language`` reads grammar files into it, ``machine`` compiles and runs
it, ``readings`` are its other uses; ``parser`` is the face, ``events`` and ``message`` what it gives,
``registry`` finds grammars, ``adapters`` and ``cli`` stand on top.
"""

from toolgrammar.errors import (
    GrammarError as GrammarError,
    ToolgrammarError as ToolgrammarError,
    ToolsError as ToolsError,
    UnknownModelError as UnknownModelError,
)
from toolgrammar.events import (
    CallArguments as CallArguments,
    CallEnd as CallEnd,
    CallStart as CallStart,
    Content as Content,
    Diagnostic as Diagnostic,
    Event as Event,
    Reasoning as Reasoning,
)
from toolgrammar.message import Call as Call, Message as Message
from toolgrammar.parser import Parser as Parser, aparse as aparse, parse as parse

__all__ = [
    "Call",
    "CallArguments",
    "CallEnd",
    "CallStart",
    "Content",
    "Diagnostic",
    "Event",
    "GrammarError",
    "Message",
    "Parser",
    "Reasoning",
    "ToolgrammarError",
    "ToolsError",
    "UnknownModelError",
    "aparse",
    "parse",
]

__version__ = "0.1.0"
