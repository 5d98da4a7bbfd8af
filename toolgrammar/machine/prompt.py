"""Where generation starts, from the prompt: its tail is run through the same machine.

The tail is what stands behind the last anchor of the grammar (the words that open the model's turn). Its
events belong to nobody and are dropped; the state they leave is where the output begins.
"""

from __future__ import annotations

from toolgrammar.machine.session import Session

#: Characters of a prompt that are looked at where no anchor stands.
_TAIL = 4096


def play_prompt(session: Session, prompt: str) -> None:
    """Put ``session`` where ``prompt`` leaves off."""
    at = max(
        (prompt.rfind(anchor) + len(anchor) for anchor in session.program.grammar.anchors if anchor in prompt),
        default=-1,
    )
    if at < 0:  # no anchor: from the last marker that the beginning of a turn knows
        tail = prompt[-_TAIL:]
        found = max((tail.rfind(marker) for marker in session.markers_here()), default=-1)
        at = len(prompt) - len(tail) + found if found >= 0 else len(prompt)
    tail = prompt[at:]
    if not tail:
        return
    session.start_at("prompt")
    session.feed(tail)
    session.forget()
