"""tml-renderers: its renderers by format, what they write, and its tokenizers as ours want them."""

from __future__ import annotations

import codecs
import importlib
import json
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from differential import turns
from differential.turns import Turn
from hypothesis import strategies as st

from toolgrammar import registry
from toolgrammar.machine.tokens import marker_tokens


@dataclass(frozen=True)
class Renderer:
    """One of the peer's renderers: the format it writes, and what its prompts leave open."""

    label: str
    format: str
    start: str
    make: Callable[[], Any]
    #: It takes turns with reasoning; it takes turns without: two leave out the closing ``</think>`` then.
    reasons: bool = True
    silent: bool = True
    #: Content and calls are written as one turn, as the model does.
    both: bool = True
    #: It strips what is said, as the model's template does.
    trims: bool = False
    #: String values are JSON: a marker there is data even if it comes as text.
    json: bool = False
    #: Its tokenizer composes characters (NFC).
    composes: bool = False

    @cached_property
    def peer(self) -> Any:
        return self.make()

    def turns(self, said: Iterable[str] = (), values: Iterable[str] = ()) -> st.SearchStrategy[Turn]:
        """Turns that the peer can write; ``said`` and ``values`` are further pieces of texts and string values."""
        drawn = turns.turns(self._texts(said), self._texts(values), reasons=self.reasons, trims=self.trims)
        if not self.silent:
            drawn = drawn.filter(lambda turn: turn.reasoning is not None)
        return drawn if self.both else drawn.map(turns.without_both)

    def _texts(self, pieces: Iterable[str]) -> st.SearchStrategy[str]:
        drawn = turns.texts((*turns.NEAR, *pieces))
        return drawn.map(lambda text: unicodedata.normalize("NFC", text)) if self.composes else drawn

    @cached_property
    def markers(self) -> tuple[str, ...]:
        """The special tokens that are markers of the format."""
        special = tuple(self.tokenizer.special_tokens().values())
        return marker_tokens(registry.load(self.format), special)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return Tokenizer(self.peer.tokenizer)


@dataclass(frozen=True)
class Rendered:
    """What stands before a turn, and the turn."""

    prompt: list[int]
    ids: list[int]


def renderers() -> list[Renderer]:
    """The peer's text renderers; raises ImportError without the package."""
    r, tokenizers, v0 = (_module(name) for name in ("renderers", "tokenizers", "v0"))

    def inkling() -> Any:
        return v0.Renderer(tokenizers.O200kBaseChatTokenizer())

    return [
        Renderer("deepseek-r1", "deepseek-r1", "reasoning", r.DeepSeekR1, json=True, silent=False, both=False),
        Renderer("deepseek-v3", "deepseek-v3", "content", r.DeepSeekV3, json=True, reasons=False, both=False),
        Renderer("deepseek-v3.1", "deepseek-v3.1", "content", r.DeepSeekV31, json=True, reasons=False, both=False),
        Renderer(
            "deepseek-v3.1-thinking",
            "deepseek-v3.1",
            "reasoning",
            r.DeepSeekV31.thinking,
            silent=False,
            both=False,
        ),
        Renderer("deepseek-v4", "deepseek-v4", "reasoning", r.DeepSeekV4),
        Renderer("deepseek-v4-chat", "deepseek-v4", "content", r.DeepSeekV4.chat, reasons=False),
        Renderer("deepseek-v4.1", "deepseek-v4.1", "reasoning", r.DeepSeekV41),
        Renderer("deepseek-v4.1-chat", "deepseek-v4.1", "content", r.DeepSeekV41.chat, reasons=False),
        Renderer("glm-5.2", "glm-4.7", "reasoning", r.Glm52, trims=True),
        Renderer("glm-5.3", "glm-4.7", "reasoning", r.Glm53, trims=True),
        Renderer("glm-5.3-flash", "glm-4.7", "reasoning", r.Glm53Flash, trims=True),
        Renderer("gpt-oss", "harmony", "content", r.GptOss, json=True),
        Renderer("kimi-k2", "kimi-k2", "content", r.KimiK2, json=True),
        Renderer("kimi-k2.5", "kimi-k2", "reasoning", r.KimiK25, json=True),
        Renderer("nemotron-3", "nemotron-v3", "reasoning", r.Nemotron3, trims=True),
        Renderer("nemotron-3-ultra", "nemotron-v3", "reasoning", r.Nemotron3.ultra, trims=True),
        Renderer("qwen3", "qwen3", "content", r.Qwen3, trims=True, json=True, composes=True),
        Renderer("qwen3.5", "qwen3-coder", "reasoning", r.Qwen35, trims=True, composes=True),
        Renderer("qwen3.8", "qwen3-coder", "reasoning", r.Qwen38, trims=True, composes=True),
        Renderer(
            "inkling", "inkling", "content", lambda: v0.Renderer(tokenizers.O200kBaseChatTokenizer()), json=True
        ),
    ]


def _module(name: str) -> Any:
    return importlib.import_module(f"tml_renderers.{name}")


def render(peer: Any, turn: Turn) -> Rendered:
    """The tokens the peer writes for ``turn``, without those of the prompt it would complete."""
    chat = _module("chat")

    messages = chat.OpenAIMessage.from_oss_messages([{"role": "user", "content": "hi"}, _message(turn)])
    prompt = _ids(peer.render_for_completion(messages[:1])[0])
    (example,) = peer.render_for_sft(messages)
    ids = _ids(example.input_token_spans)
    assert ids[: len(prompt)] == prompt, "the peer's turn does not go on from its own prompt"
    return Rendered(prompt, ids[len(prompt) :])


def _message(turn: Turn) -> dict[str, Any]:
    parts = [{"type": "thinking", "thinking": turn.reasoning}] if turn.reasoning else []
    parts += [{"type": "text", "text": turn.content}] if turn.content else []
    message: dict[str, Any] = {"role": "assistant", "content": parts}
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": f"functions.{name}:{index}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)},
            }
            for index, (name, arguments) in enumerate(turn.calls)
        ]
    return message


def _ids(spans: Any) -> list[int]:
    return [number for span in spans for number in span.span.tokens]


class Tokenizer:
    """The peer's tokenizer in the shape ``Parser(tokenizer=...)`` wants."""

    def __init__(self, peer: Any) -> None:
        self.peer = peer
        ids = [peer.encode_special(name) for name in peer.special_tokens()]
        self._special = {number: peer.decode([number]) for number in ids}

    def special_tokens(self) -> dict[int, str]:
        return self._special

    def decoder(self) -> Decoder:
        return Decoder(self.peer)

    def pieces(self, ids: list[int]) -> list[str]:
        """The text of each token, as a server without token ids sends it."""
        decoder = Decoder(self.peer)
        return [decoder.step(number) or "" for number in ids]


class Decoder:
    """Tokens to text, a character as soon as it is whole."""

    def __init__(self, peer: Any) -> None:
        self._peer = peer
        self._bytes = codecs.getincrementaldecoder("utf-8")("replace")

    def step(self, number: int) -> str | None:
        return self._bytes.decode(self._peer.decode_bytes([number])) or None

    def flush(self) -> str:
        return self._bytes.decode(b"", True)

    def copy(self) -> Decoder:
        new = Decoder(self._peer)
        new._bytes.setstate(self._bytes.getstate())
        return new


def read(peer: Any, ids: list[int]) -> Turn:
    """What the peer's own parser reads."""
    chat = _module("chat")

    (user,) = chat.OpenAIMessage.from_oss_messages([{"role": "user", "content": "hi"}])
    reasoning, content, calls = "", "", []
    for message in peer.render_for_completion([user])[1].parse_tokens(ids):
        match message.content:
            case chat.Thinking(text=text):
                reasoning += text
            case chat.Text(text=text):
                content += text
            case chat.InvokeTool(name=name, args=arguments):
                calls.append((name, {each.name: json.loads(each.value) for each in arguments}))
    return Turn(reasoning or None, content or None, tuple(calls))
