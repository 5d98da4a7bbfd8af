"""A scripted engine behind the real wire: for tests of what is above, for agents without a model, for load.

``scripts``, ``recordings`` and ``choice`` say what is answered; ``laying_out`` puts a script under a request's
limits and encodes it; ``schedule``, ``running``, ``outbox`` and ``engine`` give it out step by step. It runs on a
thread of this process (``EmbeddedReplay``) or as one of its own (``python -m toolgrammar_serving.replay``).
"""

from toolgrammar_serving.replay.choice import ByContent, Choose, Echo, Entry, InOrder, chooser, refusal
from toolgrammar_serving.replay.counters import Counters
from toolgrammar_serving.replay.embedded import EmbeddedReplay
from toolgrammar_serving.replay.engine import ReplayEngine
from toolgrammar_serving.replay.options import EngineOptions
from toolgrammar_serving.replay.recordings import RecordingError, RecordingOptions, read_recordings
from toolgrammar_serving.replay.scripts import Script, ScriptError, Step, read_script
from toolgrammar_serving.replay.vocabulary import ByteVocabulary, FileVocabulary, Vocabulary, VocabularyError

__all__ = [
    "ByContent",
    "ByteVocabulary",
    "Choose",
    "Counters",
    "Echo",
    "EmbeddedReplay",
    "EngineOptions",
    "Entry",
    "FileVocabulary",
    "InOrder",
    "RecordingError",
    "RecordingOptions",
    "ReplayEngine",
    "Script",
    "ScriptError",
    "Step",
    "Vocabulary",
    "VocabularyError",
    "chooser",
    "read_recordings",
    "read_script",
    "refusal",
]
