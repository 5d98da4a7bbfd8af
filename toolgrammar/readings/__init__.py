"""The nodes of a grammar read in other ways than by the machine.

    first     what a node may begin with: FIRST sets of these readings' own
    oracle    valid text to facts, with parsy; slow, simple, and independent of the machine
    render    calls to text, as the model's template writes them
    generate  Hypothesis strategies: turns as text, with what they mean

Nothing here imports ``toolgrammar.machine``: the readings are what it is checked against. ``oracle`` needs
parsy and ``generate`` hypothesis (extra ``dev``); ``render`` needs nothing.
"""
