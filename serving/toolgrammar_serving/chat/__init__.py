"""A conversation in, chat events out: prompts, tools, constraints, and the output read by the model's grammar."""

from toolgrammar_serving.chat.constraints import content_outputs as content_outputs
from toolgrammar_serving.chat.files import ChatFiles as ChatFiles
from toolgrammar_serving.chat.files import chat_files as chat_files
from toolgrammar_serving.chat.model import ChatModel as ChatModel
from toolgrammar_serving.chat.model import PreparedChat as PreparedChat
from toolgrammar_serving.chat.requests import ChatFinish as ChatFinish
from toolgrammar_serving.chat.requests import ChatFinishReason as ChatFinishReason
from toolgrammar_serving.chat.requests import ChatRequest as ChatRequest
from toolgrammar_serving.chat.requests import ChatSink as ChatSink
from toolgrammar_serving.chat.requests import ResponseFormat as ResponseFormat
from toolgrammar_serving.chat.requests import ToolChoice as ToolChoice
from toolgrammar_serving.text import Finish as Finish
from toolgrammar_serving.text import Generation as Generation
from toolgrammar_serving.text import Sampling as Sampling
from toolgrammar_serving.text import TextModel as TextModel
from toolgrammar_serving.text import TokenLogprob as TokenLogprob
from toolgrammar_serving.text import Usage as Usage
