"""Response templates written for the tests, named by the format whose cases they are run on."""

from __future__ import annotations

from functools import cache
from typing import Any

from toolgrammar.combinators import Grammar
from toolgrammar.templates import load_template

CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
WHOLE = {"type": "function", "function": "{content}"}


def template(anchor: str | list[str], **fields: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "defaults": {"role": "assistant"}, "start_anchor": anchor, "fields": fields}


def calls(opener: str, close: str | list[str] | None, **more: Any) -> dict[str, Any]:
    """A field of calls; an opener with a named group is a pattern."""
    key = "open_pattern" if "(?P" in opener or "\\" in opener else "open"
    closing = {} if close is None else {"close_pattern" if "\\" in str(close) else "close": close}
    return {key: opener, **closing, "content": "json", "repeats": True, "transform": CALL, **more}


def tags(pattern: str) -> dict[str, Any]:
    return {"content": "xml-inline", "content_args": {"tag_pattern": pattern}}


THINK = {"open": "<think>", "close": "</think>"}
HERMES = template(
    "<|im_start|>assistant\n",
    thinking=THINK,
    tool_calls=calls("<tool_call>", "</tool_call>", transform=WHOLE),
    content={"close": "<|im_end|>"},
)

TEMPLATES: dict[str, dict[str, Any]] = {
    "hermes": HERMES,
    "qwen3": HERMES,
    "qwen3-coder": template(
        "<|im_start|>assistant\n",
        thinking=THINK,
        tool_calls=calls(
            r"<tool_call>\s*<function=(?P<name>\w+)>",
            "</tool_call>",
            **tags(r"<parameter=(?P<key>\w+)>\s*(?P<value>.*?)\s*</parameter>"),
        ),
        content={"close": "<|im_end|>"},
    ),
    "seed-oss": template(
        "<seed:bos>assistant\n",
        thinking={"open": "<seed:think>", "close": "</seed:think>"},
        tool_calls=calls(
            r"<seed:tool_call>\s*<function=(?P<name>[^>]+)>",
            r"</function>\s*</seed:tool_call>",
            **tags(r"<parameter=(?P<key>[^>]+)>(?P<value>.*?)</parameter>"),
        ),
        content={"close": "<seed:eos>"},
    ),
    "glm-4.5": template(
        "<|assistant|>",
        reasoning_content=THINK,
        tool_calls=calls(
            r"<tool_call>(?P<name>[^\s<]+)",
            "</tool_call>",
            **tags(r"<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>"),
        ),
        content={"close": ["<|observation|>", "<|user|>", "<|endoftext|>"]},
    ),
    "gemma4": template(
        ["<|turn>model\n", "<tool_response|>"],
        thinking={"open": "<|channel>thought\n", "close": "<channel|>"},
        tool_calls=calls(
            r"<\|tool_call>call:(?P<name>\w+)",
            "<tool_call|>",
            content_args={"string_delims": [['<|"|>', '<|"|>']], "unquoted_keys": True},
        ),
        content={"close": ["<turn|>", "<|tool_response>", "<eos>"]},
    ),
    "functiongemma": template(
        "<start_of_turn>model\n",
        tool_calls=calls(
            "<start_function_call>call:(?P<name>[^\\s{]+)",
            "<end_function_call>",
            content_args={"string_delims": [["<escape>", "<escape>"]], "unquoted_keys": True},
        ),
        content={"close": ["<end_of_turn>", "<eos>", "<start_function_response>"]},
    ),
    "granite": template(
        "<|start_of_role|>assistant<|end_of_role|>",
        thinking={
            "open_pattern": "Here(?: is|'s) my thought process:|<think>",
            "close_pattern": "Here(?: is|'s) my response:|</think>",
        },
        tool_calls={
            "open": ["<|tool_call|>", "<tool_call>"],
            "content": "json",
            "transform_each": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        },
        content={"close": "<|end_of_text|>"},
    ),
    "ernie45": template(
        "<|im_start|>assistant\n",
        thinking={"open_pattern": r"^|<think>\s*", "close": "</think>"},
        content={"open": "<response>\n", "close_pattern": r"\n?</response>"},
        tool_calls=calls("<tool_call>", "</tool_call>", transform=WHOLE),
    ),
    "cohere-command": template(
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        thinking={"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
        content={"open": ["<|START_RESPONSE|>", "<|START_TEXT|>"], "close": ["<|END_RESPONSE|>", "<|END_TEXT|>"]},
        tool_calls={
            "open": "<|START_ACTION|>",
            "close": "<|END_ACTION|>",
            "content": "json",
            "transform_each": True,
            "transform": {
                "id": "{tool_call_id}",
                "type": "function",
                "function": {"name": "{tool_name}", "arguments": "{parameters}"},
            },
        },
    ),
    "harmony": template(
        "<|start|>assistant",
        thinking={"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
        content={"open": "<|channel|>final<|message|>", "close": ["<|end|>", "<|return|>"]},
        tool_calls=calls(r"<\|channel\|>commentary to=functions\.(?P<name>\w+).*?<\|message\|>", "<|call|>"),
    ),
    "inkling": template(
        "<|message_model|>",
        content={
            "open_pattern": r"(?:<\|message_model\|>)?[^<]*<\|content_text\|>",
            "close": "<|end_message|>",
            "content_args": {"strip": False},
            "repeats": True,
            "join": "\n",
        },
        thinking={
            "open_pattern": r"(?:<\|message_model\|>)?[^<]*<\|content_thinking\|>",
            "close": "<|end_message|>",
        },
        tool_calls=calls(
            r"(?:<\|message_model\|>)?[^<]*<\|content_invoke_tool_json\|>",
            "<|end_message|>",
            transform={"function": {"name": "{content.name}", "arguments": "{content.args}"}},
        ),
    ),
    "mistral": template(
        ["[/INST]", "[/TOOL_RESULTS]"],
        thinking={"open": "[THINK]", "close": "[/THINK]"},
        tool_calls=calls(r"\[TOOL_CALLS\](?P<name>[A-Za-z0-9_.:-]+)\[ARGS\]", r"(?=\[TOOL_CALLS\]|</s>)"),
        content={"close": "</s>"},
    ),
}

#: Special tokens that do not look like ``<|...|>``, as a model's tokenizer configuration names them.
TOKENS: dict[str, list[str]] = {"mistral": ["[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "</s>"]}

_STRIPPED = "white space alone: the field strips its text, the format keeps it"
_OUTSIDE = "text outside every region, which the template drops"
_ARRAY = "the other layout of the format, a JSON array: a template has one opener pattern for calls"
_HEADER = "a header spelled in another order than the pattern's"

#: Cases that the template of their format cannot express, and why.
NOT_EXPRESSED: dict[str, str] = {
    "hermes/text-after-call": _STRIPPED,
    "hermes/text-between-calls": _STRIPPED,
    "qwen3-coder/text-after-call": _STRIPPED,
    "qwen3-coder/wrapper-missing": "a call without the first tag of its opener",
    "granite/think-response-tags": "two spellings of content: only one of them may be the field `content`",
    "ernie45/reasoning-then-bare-answer": _OUTSIDE,
    "cohere-command/action-that-is-prose": _OUTSIDE,
    "harmony/call-role-header": _HEADER,
    "harmony/first-message-role-recipient": _HEADER,
    "harmony/preamble-then-call": "commentary that is content: `content` has its opener already",
    "harmony/no-header-at-all": _OUTSIDE,
    "mistral/array-single": _ARRAY,
    "mistral/array-parallel-ids": _ARRAY,
    "mistral/array-arguments-as-string": _ARRAY,
    "mistral/array-brackets-in-string": _ARRAY,
    "mistral/array-then-text": _ARRAY,
    "mistral/array-truncated": _ARRAY,
    "mistral/args-call-id": "an id between name and arguments, which the pattern does not capture",
    "mistral/no-args-marker": "[ARGS] is missing, which the pattern asks for",
}


@cache
def sample(name: str) -> Grammar:
    """The grammar of a template of ``TEMPLATES``."""
    return load_template(TEMPLATES[name], name, tokens=TOKENS.get(name, ()))
