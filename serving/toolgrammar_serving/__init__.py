"""The serving stack on top of ``toolgrammar``. Nothing in ``toolgrammar`` imports it."""
