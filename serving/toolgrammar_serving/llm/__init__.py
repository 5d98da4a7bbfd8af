"""Token ids in, token ids out: sampling defaults, n > 1 by fan-out, finish reasons, logprobs as numbers."""

from toolgrammar_serving.llm.defaults import ModelDefaults as ModelDefaults
from toolgrammar_serving.llm.generation import Generation as Generation
from toolgrammar_serving.llm.model import LLM as LLM
from toolgrammar_serving.llm.requests import Finish as Finish
from toolgrammar_serving.llm.requests import FinishReason as FinishReason
from toolgrammar_serving.llm.requests import GenerateRequest as GenerateRequest
from toolgrammar_serving.llm.requests import Position as Position
from toolgrammar_serving.llm.requests import Sampling as Sampling
from toolgrammar_serving.llm.requests import StructuredOutputs as StructuredOutputs
from toolgrammar_serving.llm.requests import TokenSink as TokenSink
from toolgrammar_serving.llm.requests import Usage as Usage
