"""The oracle's readers of text, fields and raw values: what ends where something else begins."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import parsy  # type: ignore[import-untyped, unused-ignore]

from toolgrammar import combinators as c
from toolgrammar.readings import values
from toolgrammar.readings.first import Chain, Chains, FirstSets
from toolgrammar.readings.headers import take
from toolgrammar.readings.parsing import primitive
from toolgrammar.readings.turns import Part, Said
from toolgrammar.schema import ToolTable

#: Registers; the arguments of the open call and what was said stand among them.
Env: TypeAlias = Mapping[str, Any]
Value: TypeAlias = tuple[Env, list[Part]]
Reader: TypeAlias = Callable[[Env], parsy.Parser]

#: Where the arguments of the open call stand.
ARGUMENTS: Final = "\0arguments"


class Stretches:
    """The readers of one grammar, each of one node that knows what follows it."""

    def __init__(self, grammar: c.Grammar, table: ToolTable) -> None:
        self.grammar = grammar
        self.table = table
        self.offered = table.offered or frozenset()
        self.chains = Chains()
        self.first = FirstSets(grammar)
        self._made: dict[int, Reader] = {}
        self.stop = re.compile("|".join(map(re.escape, grammar.stops)) or r"(?!)")

    def reader(self, chain: Chain) -> Reader:
        """The reader of the first node of ``chain``; kept, because rules go back to themselves."""
        if id(chain) not in self._made:
            made: list[Reader] = []
            self._made[id(chain)] = lambda env: made[0](env)
            made.append(self.make(chain.node, chain.next))
            self._made[id(chain)] = made[0]
        return self._made[id(chain)]

    def read(self, node: Any, rest: Chain | None) -> Reader:
        return self.reader(self.chains.push(node, rest))

    def make(self, node: Any, rest: Chain | None) -> Reader:
        """A new reader of ``node``."""
        raise NotImplementedError

    def begins(self, chain: Chain | None, env: Env) -> list[parsy.Parser]:
        """What shows that ``chain`` begins here: its markers, attempts and drafts in full."""
        if chain is None:
            return []
        node, rest = chain.node, chain.next
        match node:
            case c.Seq(items):
                return self.begins(self.chains.push_all(items, rest), env)
            case c.Alt(arms):
                return [one for arm in arms for one in self.begins(self.chains.push(arm, rest), env)]
            case c.Opt(item):
                return self.begins(self.chains.push(item, rest), env) + self.begins(rest, env)
            case c.Many(item, least):
                again = self.chains.push(self.chains.rest_of(node), rest)
                inner = self.begins(self.chains.push(item, again), env)
                return inner + (self.begins(rest, env) if not least else [])
            case c.Ref(rule):
                return self.begins(self.chains.push(self.grammar.rules[rule], rest), env)
            case c.Section(item) | c.Call(item):
                return self.begins(self.chains.push(item, rest), env)
            case c.Ws():
                return [white(node) >> one for one in self.begins(rest, env)]
            case c.Lit():
                marker = literal(node)
                if rest is not None and isinstance(rest.node, c.Peek):
                    marker = marker >> self.read(rest.node, None)(env)
                return [marker]
            case c.Text() | c.Let():
                return self.begins(rest, env)
            case c.Choose():
                taken = take(node, env.get(node.register, ""), self.offered)
                return [] if taken is None else self.begins(self.chains.push(node.arms[taken[0]].item, rest), env)
            case c.Peek(item):
                return [parsy.peek(self.read(item, None)(env))]
        return [self.read(node, rest)(env)]

    def until(self, rest: Chain | None, skips: bool = False, raw: bool = False) -> Reader:
        """Text up to where ``rest`` begins, the turn ends, or the text does.

        ``skips``: less what is consumed. ``raw``: a token that ends the turn does so only at the very end.
        """
        stop = re.compile(rf"(?:{self.stop.pattern})\s*\Z") if raw else self.stop
        markers = {marker.text for marker in self.first.of_chain(rest).markers}
        passed = self.grammar.skips if skips else ()
        every = sorted({*markers, *self.grammar.stops, *passed}, key=len, reverse=True)
        search = re.compile("|".join(map(re.escape, every)) or r"(?!)").search

        def make(env: Env) -> parsy.Parser:
            begins = parsy.alt(*self.begins(rest, env))

            @primitive
            def run(text: str, index: int) -> Any:
                pieces: list[str] = []
                at = start = index
                while (found := search(text, at)) is not None:
                    place = found.start()
                    for end in range(_run_before(text, start, place), place + 1):
                        if begins(text, end).status:
                            return parsy.Result.success(end, "".join(pieces) + text[start:end])
                    if stop.match(text, place):
                        return parsy.Result.success(place, "".join(pieces) + text[start:place])
                    skipped = next((skip for skip in passed if text.startswith(skip, place)), None)
                    if skipped is not None:
                        pieces.append(text[start:place])
                        start = place + len(skipped)
                    at = max(start, place + 1)
                return parsy.Result.success(len(text), "".join(pieces) + text[start:])

            return run

        return make

    def text(self, node: c.Text, rest: Chain | None) -> Reader:
        until = self.until(rest, skips=True)

        def make(env: Env) -> parsy.Parser:
            @primitive
            def run(text: str, index: int) -> Any:
                result = until(env)(text, index)
                said = result.value
                if node.strip == "all" or (node.strip == "first" and node.sink not in env):
                    said = said.lstrip(c.WHITE)
                if node.strip != "none":
                    said = said.rstrip(c.WHITE)
                alone = index == 0 and result.index == len(text)
                if node.sink == "drop" or not (said if alone else said.strip(c.WHITE)):
                    return parsy.Result.success(result.index, (env, []))
                return parsy.Result.success(
                    result.index, ({**env, node.sink: True}, [Said(node.sink, said, node.block)])
                )

            return run

        return make

    def field(self, node: c.Field, rest: Chain | None) -> Reader:
        markers = sorted((marker.text for marker in self.first.of_chain(rest).markers), key=len, reverse=True)
        if self.first.of_chain(rest).free or not markers:
            plain = parsy.regex(f"(?:{node.chars})*" if node.chars else r"\S*")
        else:
            plain = self.captured(node, rest, re.compile("|".join(map(re.escape, markers))).finditer)

        def make(env: Env) -> parsy.Parser:
            def fits(text: str) -> parsy.Parser:
                name = (
                    text[1:-1]
                    if node.quoted and re.fullmatch(r"(['\"]).*\1", text, re.S) and len(text) > 1
                    else text
                )
                name = html.unescape(name) if node.unescape else name
                if (name or node.empty) and (not node.offered or name in self.offered) and len(text) <= node.limit:
                    return parsy.success(({**env, node.register: name}, []))
                return parsy.fail(f"a {node.register}")

            return plain.bind(fits)

        return make

    def captured(self, node: c.Field, rest: Chain | None, markers: Any) -> parsy.Parser:
        """The text of a field, less the white space around it."""
        allowed = re.compile(f"(?:{node.chars})*" if node.chars else ".*", re.S)
        begins = parsy.alt(*self.begins(rest, {}))

        @primitive
        def run(text: str, index: int) -> Any:
            for found in markers(text, index):
                place = found.start()
                for end in range(_run_before(text, index, place), place + 1):
                    if begins(text, end).status:
                        said = text[index:end].strip(c.WHITE)
                        if allowed.fullmatch(said):
                            return parsy.Result.success(end, said)
                        return parsy.Result.failure(index, f"a {node.register}")
            return parsy.Result.failure(index, f"the end of a {node.register}")

        return run

    def typed(self, node: c.Typed, rest: Chain | None) -> Reader:
        until = self.until(rest, raw=True)

        def make(env: Env) -> parsy.Parser:
            plan = self.table.plan(env["name"], env["key"])
            kind = env.get(node.kind) if node.kind else None

            def value(text: str) -> Value:
                text = text.removeprefix(node.trim).removesuffix(node.trim)
                members = {**env.get(ARGUMENTS, {}), env["key"]: values.typed(plan, kind, text)}
                gone = ("key", node.kind)
                return {**{name: env[name] for name in env if name not in gone}, ARGUMENTS: members}, []

            return until(env).map(value)

        return make


def literal(node: c.Lit) -> parsy.Parser:
    marker = parsy.alt(*map(parsy.string, sorted(node.spellings, key=len, reverse=True)))
    if not node.line_start and not node.word_start:
        return marker

    @primitive
    def run(text: str, index: int) -> Any:
        before = text[index - 1] if index else "\n"
        if (node.line_start and before != "\n") or (node.word_start and re.fullmatch(r"[\w.]", before)):
            return parsy.Result.failure(index, "the start of a line or word")
        return marker(text, index)

    return run


def white(node: c.Ws) -> parsy.Parser:
    if node.exact:
        return parsy.string(node.exact).optional()
    return parsy.regex(f"[{re.escape(node.chars)}]{{{node.least},}}")


def _run_before(text: str, start: int, end: int) -> int:
    """Where the run of white space in front of ``end`` begins."""
    return start + len(text[start:end].rstrip(c.WHITE))
