"""Front ends under load, side by side: what a streamed token costs, and what a long prompt.

    python -m toolgrammar_serving.bench --model MODEL_DIR --peer vllm-rs=PATH_TO_VLLM_RS

Every front end is started alike, as vLLM starts an external one (``frontend`` argv, inherited sockets), pinned to
one core; the replay engine and the load client share another. ``scenarios`` has the workloads, ``scripts`` what
the engine says, ``load`` the client, ``runs`` one measurement, ``__main__`` the table.
"""
