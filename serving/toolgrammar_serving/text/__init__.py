"""Text in, text out: encoding, detokenising by table, stop strings, token texts of logprobs."""

from toolgrammar_serving.llm import LLM as LLM
from toolgrammar_serving.llm import Finish as Finish
from toolgrammar_serving.llm import FinishReason as FinishReason
from toolgrammar_serving.llm import Generation as Generation
from toolgrammar_serving.llm import ModelDefaults as ModelDefaults
from toolgrammar_serving.llm import Sampling as Sampling
from toolgrammar_serving.llm import StructuredOutputs as StructuredOutputs
from toolgrammar_serving.llm import Usage as Usage
from toolgrammar_serving.text.byte_tokenizer import ByteTokenizer as ByteTokenizer
from toolgrammar_serving.text.huggingface import load_tokenizer as load_tokenizer
from toolgrammar_serving.text.model import Prepared as Prepared
from toolgrammar_serving.text.model import TextModel as TextModel
from toolgrammar_serving.text.requests import Alternative as Alternative
from toolgrammar_serving.text.requests import TextRequest as TextRequest
from toolgrammar_serving.text.requests import TextSink as TextSink
from toolgrammar_serving.text.requests import TokenLogprob as TokenLogprob
from toolgrammar_serving.text.tokenizer import Tokenizer as Tokenizer
