"""An EngineCore of our own: a local model behind the wire, on the CPU and on CUDA.

    main, options      the command
    lifecycle          HELLO to the end: loading, capacity
    core               the loop; admission, pause, utilities, outputs
    executor           steps, by transformers' continuous batching with our parts: parts, sampler, rules, logprobs
    guided             constraints, by xgrammar and llguidance

It imports ``protocol`` and nothing else of the package. Neither torch nor transformers is loaded with this module.
"""
