"""The layers put on top of each other, the same for every way of running."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from toolgrammar.errors import ToolgrammarError
from toolgrammar.parser import Start
from toolgrammar_serving.chat import ChatModel, ChatRequest, PreparedChat
from toolgrammar_serving.engine_client import EngineClient
from toolgrammar_serving.launch.options import Options
from toolgrammar_serving.launch.plan import Plan
from toolgrammar_serving.launch.problems import LaunchError
from toolgrammar_serving.launch.replaying import BYTE_EOS, BYTE_MARKERS
from toolgrammar_serving.launch.telling import Summary
from toolgrammar_serving.llm import LLM, ModelDefaults
from toolgrammar_serving.server import Limits, ServerConfig, create_app
from toolgrammar_serving.text import ByteTokenizer, TextModel, Tokenizer, load_tokenizer

#: Of a model that is not there: what was said, one turn after the other.
NO_TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: "
    "{{ message.content if message.content is string else message.content | tojson }}\n{% endfor %}assistant: "
)


class _Chat(ChatModel):
    """One whose outputs begin where the operator says, unless a request knows better."""

    begins: Start = "auto"

    async def prepare(self, request: ChatRequest) -> PreparedChat:
        if request.start == "auto" != self.begins:
            request = msgspec.structs.replace(request, start=self.begins)
        return await super().prepare(request)


class Parts(msgspec.Struct):
    """What is read from disk, while an engine starts."""

    tokenizer: Tokenizer
    defaults: ModelDefaults
    template: str | None


class Assembled(msgspec.Struct):
    """The application, and what it is."""

    app: Any
    summary: Summary


def load_parts(plan: Plan) -> Parts:
    """Tokenizer, defaults and template. Slow; may run on another thread. Raises ``LaunchError``."""
    options = plan.options
    template = None
    if options.chat_template is not None:
        template = _template(options.chat_template)
    if plan.model_dir is None:
        tokenizer = ByteTokenizer(BYTE_MARKERS, eos=BYTE_MARKERS[0])
        defaults = ModelDefaults(eos_token_id=BYTE_EOS, temperature=0.0)
        return Parts(tokenizer, defaults, template or NO_TEMPLATE)
    try:
        return Parts(load_tokenizer(plan.model_dir), ModelDefaults.load(plan.model_dir), template)
    except ValueError as error:
        raise LaunchError(
            f"{plan.model_dir} cannot be used: {error}", "--tokenizer DIR: a directory with tokenizer.json"
        ) from None


def _template(text: str) -> str:
    """A file's text; vLLM also takes the template itself."""
    path = Path(text)
    if "{" not in text or path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise LaunchError(f"--chat-template {text} cannot be read: {error}") from None
    return text


def assemble(client: EngineClient, plan: Plan, parts: Parts, config: ServerConfig) -> Assembled:
    """The layers over ``client``. Raises ``LaunchError`` if format or template cannot be used."""
    options = plan.options
    llm = LLM(client, parts.defaults)
    text = TextModel(llm, parts.tokenizer)
    try:
        chat = _Chat(
            text,
            format=plan.format,
            directory=plan.model_dir,
            template=parts.template,
            template_kwargs=options.chat_template_kwargs,
            trust_request_template=options.trust_chat_template,
            tool_strict_level=options.tool_strict_level,
        )
        chat.begins = plan.start
    except (ToolgrammarError, ValueError) as error:
        raise LaunchError(str(error), "toolgrammar formats") from None
    config = msgspec.structs.replace(config, format=chat.format.name, max_model_len=llm.max_model_len)
    summary = Summary(
        models=config.models,
        format=chat.format.name,
        why=plan.why or _why(options, plan),
        tokenizer=_described(parts.tokenizer, plan),
        max_model_len=llm.max_model_len or 0,
        engine=f"{plan.way}, protocol of vLLM {client.info.vllm_version}".rstrip(),
        ranks=len(client.info.ranks),
        start=f"{'content' if plan.start == 'auto' else plan.start} ({plan.start_why})" if plan.start_why else "",
    )
    return Assembled(create_app(chat, text, client, config), summary)


def _why(options: Options, plan: Plan) -> str:
    if plan.format != "auto":
        return "named"
    return "by the template given" if options.chat_template else "by the model's directory"


def _described(tokenizer: Tokenizer, plan: Plan) -> str:
    if plan.model_dir is None:
        return "bytes, no model"
    library = "fastokens" if getattr(tokenizer, "is_fast", False) else "tokenizers"
    return f"{len(tokenizer.added_tokens)} special and added, by {library}"


def server_config(plan: Plan, index: int = 0, metrics_dir: str | None = None) -> ServerConfig:
    """The server's settings that the options amount to."""
    options = plan.options
    return ServerConfig(
        models=plan.names,
        root=options.model,
        api_keys=options.api_key,
        allowed_origins=options.allowed_origins,
        limits=Limits(body_bytes=int(options.max_body_mib * 2**20)),
        max_requests=options.max_requests,
        max_waiting=options.max_waiting,
        keep_alive_s=options.sse_keep_alive,
        slow_reader_s=options.slow_reader,
        drain_s=options.drain_timeout,
        force_usage=options.force_usage,
        trust_chat_template=options.trust_chat_template,
        root_path=options.root_path,
        docs=options.docs,
        metrics_dir=metrics_dir,
        process_index=index,
    )
