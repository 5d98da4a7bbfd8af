"""Text in, text out: encoding, detokenising by table, stop strings, token texts of logprobs."""

from toolgrammar_serving.llm import Finish as Finish
from toolgrammar_serving.llm import Sampling as Sampling
from toolgrammar_serving.llm import StructuredOutputs as StructuredOutputs
from toolgrammar_serving.llm import Usage as Usage
from toolgrammar_serving.text.requests import Alternative as Alternative
from toolgrammar_serving.text.requests import TextRequest as TextRequest
from toolgrammar_serving.text.requests import TextSink as TextSink
from toolgrammar_serving.text.requests import TokenLogprob as TokenLogprob
