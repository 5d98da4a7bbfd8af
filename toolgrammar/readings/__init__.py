"""The nodes of a grammar read in other ways than by the machine.

    first     what a node may begin with: FIRST sets of these readings' own
    oracle    valid text to a turn, with parsy (stretches, values, elements_oracle, parsing)
    render    a turn to text, as the model's template writes it (style; book, paper, pen, walk: the search)
    generate  Hypothesis strategies: turns as text, with what they mean
    turns     a turn as data, which these three share
    explain   which rule took which characters; it runs the machine, with its trace

Pages of a format: ``page`` and what it is made of. But for ``explain``, and what is made with it, nothing here
imports ``toolgrammar.machine``: the readings are what it is checked against. ``oracle`` needs parsy and
``generate`` hypothesis (extra ``dev``); ``render`` needs nothing.
"""
