"""The engine's client: sockets, start-up, and every request's outputs brought to its sink.

- ``sockets``: where engines connect, bound or adopted; ``handshake``: HELLO, INIT, READY, if the engines are ours;
  ``connecting``: waits for the registrations; ``info``: what the engines said of themselves
- ``client``: add, abort, utility calls, loss; ``ranks``: which data-parallel rank takes a request;
  ``coordinator``: published load and waves; ``utility``: calls of the engine's methods; ``connections``: an engine
  gone without a word; ``stats``: the schedulers' statistics, added up
- ``reader``: what engines send, read as it comes; ``zmtp``: bytes to frames; ``decoding``: frames to outputs;
  ``merging``: several outputs of a request to one; ``delivery``: outputs to sinks
"""

from toolgrammar_serving.engine_client.client import EngineClient as EngineClient
from toolgrammar_serving.engine_client.connecting import connect as connect
from toolgrammar_serving.engine_client.delivery import OutputSink as OutputSink
from toolgrammar_serving.engine_client.handshake import EngineNotReady as EngineNotReady
from toolgrammar_serving.engine_client.handshake import EngineTooLate as EngineTooLate
from toolgrammar_serving.engine_client.handshake import Handshake as Handshake
from toolgrammar_serving.engine_client.info import EngineInfo as EngineInfo
from toolgrammar_serving.engine_client.sockets import Adopted as Adopted
from toolgrammar_serving.engine_client.sockets import Bound as Bound
from toolgrammar_serving.engine_client.sockets import Endpoint as Endpoint
from toolgrammar_serving.engine_client.sockets import Sockets as Sockets
from toolgrammar_serving.engine_client.sockets import ipc_addresses as ipc_addresses
from toolgrammar_serving.engine_client.sockets import listen as listen
