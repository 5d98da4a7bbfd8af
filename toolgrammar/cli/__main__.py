"""``python -m toolgrammar.cli``."""

from toolgrammar.cli import main

main()
