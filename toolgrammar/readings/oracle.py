"""The oracle: valid text to a turn, with parsy. Slow and plain; what the machine must agree with.

    >>> oracle(registry.load("hermes"))('Now.\\n<tool_call>{"name": "weld"}</tool_call>')
    Turn(reasoning=None, content='Now.', calls=[('weld', {}, None)])

Each node becomes a parsy parser of the registers read so far; its value is the registers behind it and the parts
it found. An attempt counts where all of it parses, so text ends at the first place where what may follow it
really does; a draft counts where what stands behind it says so. That is the meaning of the nodes for text that
is whole: truncation, repairs, broken calls and limits are the machine's own, and fail here (``parsy.ParseError``).

Independent of ``toolgrammar.machine``; the typing of raw values (``toolgrammar.schema``) is shared.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import parsy

from toolgrammar import combinators as c
from toolgrammar.readings import values
from toolgrammar.readings.elements import read_elements
from toolgrammar.readings.first import Chain, Chains, FirstSets
from toolgrammar.readings.headers import take
from toolgrammar.readings.turns import Called, Part, Said, Turn, fold
from toolgrammar.schema import ToolTable

#: Registers and, under private names, the arguments of the open call.
Env: TypeAlias = Mapping[str, Any]
Value: TypeAlias = tuple[Env, list[Part]]
Reader: TypeAlias = Callable[[Env], parsy.Parser]

_ARGUMENTS = "\0arguments"
#: Stands for the end of a call in chains.
_END_CALL = c.Let("\0end", "")


def oracle(grammar: c.Grammar, start: str = "content", tools: Sequence[Any] | None = None) -> Callable[[str], Turn]:
    """A reader of whole texts of ``grammar``. It raises ``parsy.ParseError`` for text that is not valid."""
    reading = _Reading(grammar, ToolTable.of(tools))
    reader = reading.reader(reading.chains.push(c.Ref(grammar.starts[start]), None))

    def read(text: str) -> Turn:
        _, parts = (reader({}) << reading.end_of_turn()).parse(text)
        return fold(grammar, parts)

    return read


class _Reading:
    """The readers of one grammar. A reader reads one node, knowing what follows it."""

    def __init__(self, grammar: c.Grammar, table: ToolTable) -> None:
        self.grammar = grammar
        self.table = table
        self.offered = table.offered or frozenset()
        self.chains = Chains()
        self.first = FirstSets(grammar)
        self._made: dict[int, Reader] = {}
        self._stop = re.compile("|".join(map(re.escape, grammar.stops)) or r"(?!)")

    def end_of_turn(self) -> parsy.Parser:
        """The end of the text, or an end-of-turn token, behind which nothing is read."""
        stopped = parsy.regex(rf"\s*(?:{self._stop.pattern}).*", re.S)
        return stopped | parsy.regex(r"\s*") >> parsy.eof

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

    # ---- nodes ------------------------------------------------------------------------------------------------

    def make(self, node: Any, rest: Chain | None) -> Reader:
        match node:
            case c.Seq(items):
                chain, readers = rest, []
                for item in reversed(items):
                    readers.append(self.read(item, chain))
                    chain = self.chains.push(item, chain)
                return _in_order(readers[::-1])
            case c.Alt(arms):
                readers = [self.read(arm, rest) for arm in sorted(arms, key=lambda arm: self.first.of(arm).empty)]
                return lambda env: parsy.alt(*(reader(env) for reader in readers))
            case c.Opt(item):
                inner = self.read(item, rest)
                return lambda env: inner(env) | _nothing(env)
            case c.Many():
                return self.many(node, rest)
            case c.Ref(rule):
                return self.read(self.grammar.rules[rule], rest)
            case c.Section(item) | c.Attempt(item):
                return self.read(item, rest)
            case c.Call(item):
                return self.call(item, rest)
            case c.Envelope():
                return lambda env: values.envelope(node, self.offered).map(lambda call: (dict(env), [call]))
            case c.Draft():
                return self.draft(node, rest)
            case c.Lit():
                marker = _literal(node)
                return lambda env: marker.result((env, []))
            case c.Ws():
                white = _white(node)
                return lambda env: white.result((env, []))
            case c.Peek(item):
                ahead = self.read(item, None)
                return lambda env: parsy.peek(ahead(env)).result((env, []))
            case c.Let(register, value):
                return lambda env: parsy.success(({**env, register: value}, []))
            case c.Choose():
                return self.choose(node, rest)
            case c.Text():
                return self.text(node, rest)
            case c.Field():
                return self.field(node, rest)
            case c.Typed():
                return self.typed(node, rest)
            case c.Verbatim(key):
                until = self.until(rest)
                return lambda env: until(env).map(lambda text: ({**env, _ARGUMENTS: {key: text}}, []))
        return self.whole(node)

    def many(self, node: c.Many, rest: Chain | None) -> Reader:
        item = self.read(node.item, self.chains.push(self.chains.rest_of(node), rest))

        def make(env: Env) -> parsy.Parser:
            @parsy.Parser
            def run(text: str, index: int) -> Any:
                here, found, count = env, [], 0
                while True:
                    result = item(here)(text, index)
                    if not result.status or (result.index == index and count >= node.least):
                        break
                    here, index, count = result.value[0], result.index, count + 1
                    found += result.value[1]
                if count < node.least:
                    return result
                return parsy.Result.success(index, (here, found)).aggregate(result)

            return run

        return make

    def call(self, item: Any, rest: Chain | None) -> Reader:
        inner = self.read(item, self.chains.push(_END_CALL, rest))

        def close(value: Value) -> parsy.Parser:
            env, _ = value
            if not env.get("name"):
                return parsy.fail("a name")
            call = Called(env["name"], env.get(_ARGUMENTS, {}), env.get("id"))
            return parsy.success(({sink: True for sink in ("content", "reasoning") if sink in env}, [call]))

        return lambda env: inner(env).bind(close)

    def draft(self, node: c.Draft, rest: Chain | None) -> Reader:
        item, closer = self.read(node.item, None), self.read(node.closer, None)
        ended = parsy.regex(r"\s*") >> (parsy.eof | parsy.regex(self._stop.pattern))

        def make(env: Env) -> parsy.Parser:
            calls = item(env).at_least(1).map(lambda values: [part for _, parts in values for part in parts])
            white = parsy.regex(r"\s*")
            drafts = white >> closer({}) >> white >> item({})
            decided = parsy.peek(ended) | drafts.should_fail("no call behind the closer") >> white >> closer({})
            return (calls << decided).map(lambda parts: ({}, parts))

        return make

    def choose(self, node: c.Choose, rest: Chain | None) -> Reader:
        arms = [self.read(arm.item, rest) for arm in node.arms]

        def make(env: Env) -> parsy.Parser:
            taken = take(node, env.get(node.register, ""), self.offered)
            if taken is None:
                return parsy.fail(f"an arm for {node.register}")
            return arms[taken[0]]({**env, **taken[1]})

        return make

    # ---- text -------------------------------------------------------------------------------------------------

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
                return [_white(node) >> one for one in self.begins(rest, env)]
            case c.Lit():
                marker = _literal(node)
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
        stop = re.compile(rf"(?:{self._stop.pattern})\s*\Z") if raw else self._stop
        markers = {marker.text for marker in self.first.of_chain(rest).markers}
        passed = self.grammar.skips if skips else ()
        every = sorted({*markers, *self.grammar.stops, *passed}, key=len, reverse=True)
        search = re.compile("|".join(map(re.escape, every)) or r"(?!)").search

        def make(env: Env) -> parsy.Parser:
            begins = parsy.alt(*self.begins(rest, env))

            @parsy.Parser
            def run(text: str, index: int) -> Any:
                pieces, at, start = [], index, index
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
            @parsy.Parser
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
                return parsy.Result.success(result.index, ({**env, node.sink: True}, [Said(node.sink, said, node.block)]))

            return run

        return make

    # ---- fields and values ------------------------------------------------------------------------------------

    def field(self, node: c.Field, rest: Chain | None) -> Reader:
        markers = sorted((marker.text for marker in self.first.of_chain(rest).markers), key=len, reverse=True)
        if self.first.of_chain(rest).free or not markers:
            plain = parsy.regex(f"(?:{node.chars})*" if node.chars else r"\S*")
        else:
            plain = self.captured(node, rest, re.compile("|".join(map(re.escape, markers))).finditer)

        def make(env: Env) -> parsy.Parser:
            def fits(text: str) -> parsy.Parser:
                name = text[1:-1] if node.quoted and re.fullmatch(r"(['\"]).*\1", text, re.S) and len(text) > 1 else text
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

        @parsy.Parser
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
                members = {**env.get(_ARGUMENTS, {}), env["key"]: values.typed(plan, kind, text)}
                gone = ("key", node.kind)
                return {**{name: env[name] for name in env if name not in gone}, _ARGUMENTS: members}, []

            return until(env).map(value)

        return make

    def whole(self, node: Any) -> Reader:
        if isinstance(node, c.Elements):
            def make(env: Env) -> parsy.Parser:
                elements = read_elements(node.prefix, self.table.parameters(env["name"]))
                return elements.map(lambda found: ({**env, _ARGUMENTS: found}, []))

            return make
        readers: Mapping[type, Callable[[], parsy.Parser]] = {
            c.Json: values.arguments, c.PyArgs: values.keywords, c.Quoted: lambda: values.quoted(node.quote),
        }  # fmt: skip
        reader = readers[type(node)]()
        return lambda env: reader.map(lambda found: ({**env, _ARGUMENTS: found}, []))


def _in_order(readers: list[Reader]) -> Reader:
    def make(env: Env) -> parsy.Parser:
        @parsy.Parser
        def run(text: str, index: int) -> Any:
            here, found = env, []
            result = parsy.Result.success(index, (env, []))
            for reader in readers:
                result = reader(here)(text, index).aggregate(result)
                if not result.status:
                    return result
                here, index = result.value[0], result.index
                found += result.value[1]
            return parsy.Result.success(index, (here, found)).aggregate(result)

        return run

    return make


def _nothing(env: Env) -> parsy.Parser:
    return parsy.success((env, []))


def _literal(node: c.Lit) -> parsy.Parser:
    marker = parsy.alt(*map(parsy.string, sorted(node.spellings, key=len, reverse=True)))
    if not node.line_start and not node.word_start:
        return marker

    @parsy.Parser
    def run(text: str, index: int) -> Any:
        before = text[index - 1] if index else "\n"
        if (node.line_start and before != "\n") or (node.word_start and re.fullmatch(r"[\w.]", before)):
            return parsy.Result.failure(index, "the start of a line or word")
        return marker(text, index)

    return run


def _white(node: c.Ws) -> parsy.Parser:
    if node.exact:
        return parsy.string(node.exact).optional()
    return parsy.regex(f"[{re.escape(node.chars)}]{{{node.least},}}")


def _run_before(text: str, start: int, end: int) -> int:
    """Where the run of white space in front of ``end`` begins."""
    return start + len(text[start:end].rstrip(c.WHITE))
