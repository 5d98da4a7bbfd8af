"""One file per command; each has a ``command``. The table is ``toolgrammar.cli.app.COMMANDS``."""
