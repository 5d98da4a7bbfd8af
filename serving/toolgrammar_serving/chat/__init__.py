"""A conversation in, chat events out: prompts, tools, constraints, and the output read by the model's grammar."""

from toolgrammar_serving.chat.requests import ChatFinish as ChatFinish
from toolgrammar_serving.chat.requests import ChatRequest as ChatRequest
from toolgrammar_serving.chat.requests import ChatSink as ChatSink
from toolgrammar_serving.chat.requests import ResponseFormat as ResponseFormat
from toolgrammar_serving.chat.requests import ToolChoice as ToolChoice
