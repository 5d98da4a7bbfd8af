"""Documentation of the formats: a page and a picture for each, made of its grammar and its cases.

    python -m toolgrammar.readings.page            write docs/formats (``make pages``)
    python -m toolgrammar.readings.page --check    exit with 1 if a page is not what would be written, and name it

The same grammars and cases give the same bytes. Nothing on a page is written by hand: the prose is the grammar's
``@title`` and ``@note`` lines and the cases' reasons.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolgrammar import registry
from toolgrammar.combinators import Grammar
from toolgrammar.parser import Parser
from toolgrammar.readings import ebnf, example, roles
from toolgrammar.readings.figures import figures
from toolgrammar.readings.markdown import block, code, codes, prose, shortened, table
from toolgrammar.readings.railroad import railroad
from toolgrammar.testing import CaseResult, run_case

Case = Mapping[str, Any]

_STATES = {
    "content": "the prompt left nothing open",
    "reasoning": "the prompt opened the reasoning",
    "section": "the prompt opened a call section",
}
_PICTURE = (
    "Rounded: literals. Boxes: rules. Capitals: the words above. Slanted: conditions. What is in a dashed frame\n"
    "must follow and is not taken. A call in open reasoning is a candidate until what follows it decides."
)


def page(grammar: Grammar, cases: Sequence[Case]) -> str:
    """The page of a format as Markdown. ``cases``: those of the format, each is run."""
    parts = [_head(grammar), _starts(grammar), _markers(grammar), _rules(grammar)]
    parts += [_example(grammar), _cases(cases, _results(grammar, cases)), _peers(grammar)]
    return "\n".join(filter(None, parts))


def index(formats: Mapping[str, Grammar], cases: Mapping[str, Sequence[Case]]) -> str:
    """The page that lists all pages."""
    rows = []
    for name, grammar in formats.items():
        results = _results(grammar, cases.get(name, ()))
        call = example.one_call(grammar)
        rows.append(
            [
                f"[{name}]({name}.md)",
                prose(grammar.title),
                code(shortened(call, 110), cell=True) if call else "no calls",
                "yes" if example.thinks(grammar) else "no",
                str(held) if (held := _held(results)) == len(results) else f"{held} of {len(results)}",
            ]
        )
    return (
        "# Formats\n\n"
        f"{len(formats)} formats, a page each: who writes it, markers, rules as EBNF and as a picture, an\n"
        "example, cases, what other parsers do. Made of the [grammars](../../grammars) and the\n"
        "[cases](../../fixtures/cases) by `make pages`; `↵` is a line feed. A format of your own:\n"
        "[add-a-format.md](../add-a-format.md).\n\n"
    ) + table(["format", "what it is", "a call", "reasoning", "cases that hold"], rows)


# ---- the parts of a page ----------------------------------------------------------------------------------------


def _head(grammar: Grammar) -> str:
    names = dict.fromkeys([grammar.name, *grammar.names])
    rows = [["names", codes(names, cell=True)]]
    if grammar.models:
        rows.append(["model ids with", codes(grammar.models, cell=True)])
    if evidence := grammar.facts.get("detect"):
        rows.append(["known by", "<br>".join(code(line, cell=True) for line in evidence)])
    written = "".join(f"{prose(note)}\n\n" for note in _notes(grammar, "Written by", "For "))
    return (
        f"# {grammar.name}: {prose(grammar.title)}\n\n"
        f"Made of [{grammar.name}.tg](../../grammars/{grammar.name}.tg) by `make pages`."
        " [All formats](README.md)\n\n"
    ) + f"{written}{table(['', ''], rows)}"


def _starts(grammar: Grammar) -> str:
    starts = figures(grammar).starts
    rows = [[code(state), code(starts[state]), _STATES[state]] for state in grammar.starts]
    notes = "".join(f"{prose(note)}\n\n" for note in _notes(grammar, "Starts "))
    anchors = f"\nThe model's turn begins behind {codes(grammar.anchors)}.\n" if grammar.anchors else ""
    return f"## Where a turn starts\n\n{notes}{table(['state', 'rule', 'when'], rows)}{anchors}"


def _markers(grammar: Grammar) -> str:
    rows = [
        [codes([marker.text, *marker.more], cell=True), marker.kind, prose(marker.does)]
        for marker in roles.markers(grammar)
    ]
    if not rows:
        return ""
    return f"## Markers\n\n{table(['marker', 'is', 'what it does'], rows)}"


def _rules(grammar: Grammar) -> str:
    found = figures(grammar)
    words = "".join(f"- {code(word)}: {means}\n" for word, means in ebnf.legend(found).items())
    return (
        f"## Rules\n\n{block(ebnf.written(found), 'ebnf')}\n{words}\n{ebnf.SIGNS}\n\n"
        f"![The rules of {grammar.name} as railroad diagrams]({grammar.name}.svg)\n\n{_PICTURE}\n"
    )


def _example(grammar: Grammar) -> str:
    made = example.example(grammar)
    if made is None:
        return ""
    rows = [
        [
            str(each.start),
            str(each.end),
            code(shortened(each.text, 48), cell=True),
            each.kind,
            _rule_name(each.rule),
        ]
        for each in made.stretches
    ]
    tools = " and ".join(code(str(tool["name"])) for tool in example.TOOLS)
    return (
        f"## Example\n\nA turn that starts in {made.start}, written by the renderer; {tools} are offered.\n\n"
        f"{block(made.text)}\nRead as follows; the rules are those of the grammar file:\n\n"
        f"{table(['start', 'end', 'text', 'kind', 'rule'], rows)}\n"
        f"The events, neighbours joined, with their spans:\n\n{block(chr(10).join(made.events))}"
    )


def _rule_name(rule: str) -> str:
    return code(rule.partition("<")[0], cell=True) if rule else ""


def _cases(cases: Sequence[Case], results: Sequence[CaseResult]) -> str:
    if not cases:
        return "## Cases\n\nNone.\n"
    files = sorted({_file(case) for case in cases})
    links = " and ".join(f"[{name}](../../fixtures/cases/{name})" for name in files)
    lines = "".join(_case(case, result) for case, result in zip(cases, results, strict=True))
    return (
        f"## Cases\n\n{_held(results)} of {len(cases)} in {links} hold.\n"
        f"Each is fed whole, one code point at a time, in pieces of its own and over random cuts.\n\n{lines}"
    )


def _case(case: Case, result: CaseResult) -> str:
    source = f" ({prose(case['source'])})" if case.get("source") else ""
    marks = ["arguable"] * result.soft + ["does not hold"] * (not result.ok)
    mark = f" **{', '.join(marks)}**" if marks else ""
    return f"- {code(case['id'])}{mark}: {prose(case.get('why', ''))}{source}\n"


def _file(case: Case) -> str:
    return f"{case['id'].partition('/')[0]}.jsonl"


def _peers(grammar: Grammar) -> str:
    first = ("Written by", "For ", "Starts ")
    others = [note for note in grammar.facts.get("note", ()) if not note.startswith(first)]
    lines = "".join(f"- {prose(note)}\n" for note in others)
    return f"## What other parsers do, and notes\n\n{lines}" if lines else ""


def _notes(grammar: Grammar, *beginnings: str) -> list[str]:
    return [note for note in grammar.facts.get("note", ()) if note.startswith(beginnings)]


def _results(grammar: Grammar, cases: Sequence[Case]) -> list[CaseResult]:
    def parser(case: Case) -> Parser:
        return Parser(grammar=grammar, tools=case.get("tools"), start=case.get("starts_in", "auto"))

    return [run_case(case, parser) for case in cases]


def _held(results: Sequence[CaseResult]) -> int:
    return sum(result.ok for result in results)


# ---- files ------------------------------------------------------------------------------------------------------


def cases_in(folder: Path) -> dict[str, list[Case]]:
    """Every case of a folder by its format, the files in order."""
    found: dict[str, list[Case]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for line in filter(None, path.read_text(encoding="utf-8").split("\n")):
            case = json.loads(line)
            found.setdefault(case["format"], []).append(case)
    return found


def made(cases: Mapping[str, Sequence[Case]]) -> Iterator[tuple[str, str]]:
    """Every file as it should be, one after the other: its name and text."""
    formats = {name: registry.load(name) for name in registry.formats()}
    for name, grammar in formats.items():
        yield f"{name}.md", page(grammar, cases.get(name, ()))
        yield f"{name}.svg", railroad(figures(grammar), f"The rules of {name}")
    yield "README.md", index(formats, cases)


def stale(out: Path, files: Mapping[str, str]) -> list[str]:
    """The files that are missing, are something else, or stand for no format any more."""
    there = {path.name for suffix in ("md", "svg") for path in out.glob(f"*.{suffix}")}
    wrong = {
        name
        for name, text in files.items()
        if name not in there or (out / name).read_text(encoding="utf-8") != text
    }
    return sorted(wrong | (there - set(files)))


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(
        prog="python -m toolgrammar.readings.page", description="Pages of the formats."
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is stale")
    parser.add_argument("--out", type=Path, default=Path("docs/formats"), help="where the pages are")
    parser.add_argument("--cases", type=Path, default=Path("fixtures/cases"), help="where the cases are")
    given = parser.parse_args(arguments)
    files = dict(made(cases_in(given.cases)))
    wrong = stale(given.out, files)
    if given.check:
        for name in wrong:
            print(f"stale: {given.out / name}  (make pages)", file=sys.stderr)
        return 1 if wrong else 0
    given.out.mkdir(parents=True, exist_ok=True)
    for name in wrong:
        if name in files:
            (given.out / name).write_text(files[name], encoding="utf-8", newline="\n")
        else:
            (given.out / name).unlink()
    print(f"{given.out}: {len(files)} files, {len(wrong)} of them new or changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
