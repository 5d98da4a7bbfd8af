"""Where generation starts, from the prompt: its tail is run through the same machine.

The tail is what stands behind the last anchor of the grammar (the words that open the model's turn). Its
events belong to nobody and are dropped; the state they leave is where the output begins.
"""

from __future__ import annotations

from toolgrammar.machine.session import Session

#: Characters of a prompt without an anchor that are looked at.
_TAIL = 4096


def play_prompt(session: Session, prompt: str) -> None:
    """Put ``session`` where ``prompt`` leaves off."""
    anchors = session.program.grammar.anchors
    at = max((prompt.rfind(anchor) + len(anchor) for anchor in anchors if anchor in prompt), default=-1)
    tail = prompt[at:] if at >= 0 else ""
    if not tail:
        return
    session.start_at("prompt")
    session.feed(tail)
    session.forget()
