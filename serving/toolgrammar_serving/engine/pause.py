"""Whether the engine works at the moment: the modes of ``pause_scheduler`` and ``pause_generation``."""

from __future__ import annotations


class Pause:
    """``keep`` freezes what runs, ``wait`` lets it finish, ``abort`` ends it; new requests wait or are refused."""

    def __init__(self) -> None:
        self.paused = False
        self.frozen = False  # no steps are made
        self.rejects = False  # new requests are refused
        self.waiting: list[tuple[int, int]] = []  # (front end, call) to answer when nothing runs any more

    def begin(self, mode: str, rejects: bool) -> None:
        """Raises ``ValueError`` for a mode that does not exist."""
        if mode not in ("abort", "wait", "keep"):
            raise ValueError(f"mode must be abort, wait or keep, found {mode!r}")
        self.paused = True
        self.frozen = mode == "keep"
        self.rejects = rejects

    def end(self) -> None:
        self.paused = self.frozen = self.rejects = False

    def settled(self) -> list[tuple[int, int]]:
        """The calls that waited."""
        waiting, self.waiting = self.waiting, []
        return waiting
