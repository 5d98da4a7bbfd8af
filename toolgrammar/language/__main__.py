"""``python -m toolgrammar.language GRAMMAR_DIR OUT``: elaborate the shipped grammars ahead of time."""

from __future__ import annotations

import sys
from pathlib import Path

from toolgrammar.errors import GrammarError
from toolgrammar.language.stored import build


def main(arguments: list[str]) -> int:
    """Exit status: 0 done, 1 a grammar is wrong, 2 wrong arguments."""
    if len(arguments) != 2:
        print("usage: python -m toolgrammar.language GRAMMAR_DIR OUT", file=sys.stderr)
        return 2
    folder, out = map(Path, arguments)
    try:
        count = build(folder, out)
    except GrammarError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{out}: {count} grammars")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
