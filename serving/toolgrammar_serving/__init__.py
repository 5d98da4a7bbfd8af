"""The serving stack: five layers from HTTP to an EngineCore, and what runs them.

    server          HTTP and SSE, OpenAI's shapes, metrics, keys, drain
    chat            messages and tools to a prompt; output text to chat events, by the model's grammar
    text            text to token ids and back; stop strings; token texts of logprobs
    llm             token ids in, token ids out; sampling defaults; n > 1 by fan-out
    engine_client   the wire to one or more EngineCores: requests down, outputs demultiplexed

Each layer imports only the next one down, but ``server``, which serves completions too, also takes ``text``'s
types, and ``protocol`` and ``errors`` belong to none. Outputs are *pushed* up: a layer hands the one below a sink,
and one plain loop per engine message walks all running requests through their sinks to the connection; no task,
queue or future per token.

Beside the layers: ``protocol`` is the wire itself, shared by both ends; ``replay`` a scripted engine; ``engine``
an EngineCore of our own (torch); ``launch`` the command lines; ``bench`` measures front ends side by side.
"""
