"""HTTP: the OpenAI-compatible endpoints over the chat and text layers.

``app`` puts it together, ``run`` runs it. A request passes ``gate`` (id, key), its route (``chat_route``, …),
``body`` (JSON to what the layer below takes) and becomes an ``answer``: ``chat_stream`` or ``chat_whole``, whose
sinks write to the ``connection``.
"""

from toolgrammar_serving.server.app import create_app as create_app
from toolgrammar_serving.server.config import Limits as Limits
from toolgrammar_serving.server.config import ServerConfig as ServerConfig
from toolgrammar_serving.server.run import Listen as Listen
from toolgrammar_serving.server.run import Server as Server
from toolgrammar_serving.server.run import Tls as Tls
