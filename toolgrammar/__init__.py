"""toolgrammar: what language models say, as tool calls, reasoning and text that programs can trust.

Layout: ``combinators`` is the algebra, ``language`` reads grammar files into it, ``machine`` compiles and runs
it, ``readings`` are its other uses; ``parser`` is the face, ``events`` and ``message`` what it gives,
``registry`` finds grammars, ``adapters`` and ``cli`` stand on top.
"""

from toolgrammar.errors import (
    GrammarError as GrammarError,
)
from toolgrammar.errors import (
    ToolgrammarError as ToolgrammarError,
)
from toolgrammar.errors import (
    ToolsError as ToolsError,
)
from toolgrammar.errors import (
    UnknownModelError as UnknownModelError,
)
from toolgrammar.events import (
    CallArguments as CallArguments,
)
from toolgrammar.events import (
    CallEnd as CallEnd,
)
from toolgrammar.events import (
    CallStart as CallStart,
)
from toolgrammar.events import (
    Content as Content,
)
from toolgrammar.events import (
    Diagnostic as Diagnostic,
)
from toolgrammar.events import (
    Event as Event,
)
from toolgrammar.events import (
    Reasoning as Reasoning,
)
from toolgrammar.message import Call as Call
from toolgrammar.message import Message as Message
from toolgrammar.parser import Parser as Parser
from toolgrammar.parser import aparse as aparse
from toolgrammar.parser import parse as parse

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
