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

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import parsy  # type: ignore[import-untyped, unused-ignore]

from toolgrammar import combinators as c
from toolgrammar.readings import values
from toolgrammar.readings.elements_oracle import read_elements
from toolgrammar.readings.first import Chain
from toolgrammar.readings.headers import take
from toolgrammar.readings.parsing import primitive
from toolgrammar.readings.stretches import ARGUMENTS, Env, Reader, Stretches, Value, literal, white
from toolgrammar.readings.turns import Called, Turn, fold
from toolgrammar.schema import ToolTable

#: Stands for the end of a call in chains.
_END_CALL = c.Let("\0end", "")


def oracle(
    grammar: c.Grammar, start: str = "content", tools: Sequence[Any] | None = None
) -> Callable[[str], Turn]:
    """A reader of whole texts of ``grammar``. It raises ``parsy.ParseError`` for text that is not valid."""
    reading = _Reading(grammar, ToolTable.of(tools))
    reader = reading.reader(reading.chains.push(c.Ref(grammar.starts[start]), None))

    def read(text: str) -> Turn:
        _, parts = (reader({}) << reading.end_of_turn()).parse(text)
        return fold(grammar, parts)

    return read


class _Reading(Stretches):
    """The readers of one grammar. A reader reads one node, knowing what follows it."""

    def end_of_turn(self) -> parsy.Parser:
        """The end of the text, or an end-of-turn token, behind which nothing is read."""
        stopped = parsy.regex(rf"\s*(?:{self.stop.pattern}).*", re.S)
        return stopped | parsy.regex(r"\s*") >> parsy.eof

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
                marker = literal(node)
                return lambda env: marker.result((env, []))
            case c.Ws():
                framing = white(node)
                return lambda env: framing.result((env, []))
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
                return lambda env: until(env).map(lambda text: ({**env, ARGUMENTS: {key: text}}, []))
        return self.whole(node)

    def many(self, node: c.Many, rest: Chain | None) -> Reader:
        item = self.read(node.item, self.chains.push(self.chains.rest_of(node), rest))

        def make(env: Env) -> parsy.Parser:
            @primitive
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
            call = Called(env["name"], env.get(ARGUMENTS, {}), env.get("id"))
            return parsy.success(({sink: True for sink in ("content", "reasoning") if sink in env}, [call]))

        return lambda env: inner(env).bind(close)

    def draft(self, node: c.Draft, rest: Chain | None) -> Reader:
        item, closer = self.read(node.item, None), self.read(node.closer, None)
        blank = parsy.regex(r"\s*")
        ended = parsy.peek(blank >> (parsy.eof | parsy.regex(self.stop.pattern)))

        def make(env: Env) -> parsy.Parser:
            calls = item(env).at_least(1).map(lambda values: [part for _, parts in values for part in parts])
            more = blank >> closer({}) >> blank >> item({})
            closed = more.should_fail("no call behind the closer") >> blank >> closer({})
            return (calls << (ended | closed)).map(lambda parts: ({}, parts))

        return make

    def choose(self, node: c.Choose, rest: Chain | None) -> Reader:
        arms = [self.read(arm.item, rest) for arm in node.arms]

        def make(env: Env) -> parsy.Parser:
            taken = take(node, env.get(node.register, ""), self.offered)
            if taken is None:
                return parsy.fail(f"an arm for {node.register}")
            return arms[taken[0]]({**env, **taken[1]})

        return make

    def whole(self, node: Any) -> Reader:
        if isinstance(node, c.Elements):

            def make(env: Env) -> parsy.Parser:
                elements = read_elements(node.prefix, self.table.parameters(env["name"]))
                return elements.map(lambda found: ({**env, ARGUMENTS: found}, []))

            return make
        readers: Mapping[type, Callable[[], parsy.Parser]] = {
            c.Json: values.arguments, c.PyArgs: values.keywords, c.Quoted: lambda: values.quoted(node.quote),
        }  # fmt: skip
        reader = readers[type(node)]()
        return lambda env: reader.map(lambda found: ({**env, ARGUMENTS: found}, []))


def _in_order(readers: list[Reader]) -> Reader:
    def make(env: Env) -> parsy.Parser:
        @primitive
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
