"""Where generation starts, from the prompt: its tail is run through the same machine.

The tail is what stands behind the last anchor of the grammar (the words that open the model's turn). Its
events belong to nobody and are dropped; the state they leave is where the output begins.
"""

from __future__ import annotations

from toolgrammar.machine.session import Session

#: Characters of a prompt that are looked at where no anchor stands.
_TAIL = 4096


def _behind(prompt: str, anchors: tuple[str, ...]) -> int:
    """Where the last anchor ends, -1 if there is none."""
    return max((at + len(anchor) for anchor in anchors if (at := prompt.rfind(anchor)) >= 0), default=-1)


def tail_of(prompt: str, anchors: tuple[str, ...]) -> str:
    """As much of ``prompt``'s end as ``play_prompt`` looks at, the anchor included."""
    at = _behind(prompt, anchors)
    return prompt[-_TAIL:] if at < 0 else prompt[max(0, at - max(map(len, anchors))) :]


def play_prompt(session: Session, prompt: str) -> None:
    """Put ``session`` where ``prompt`` leaves off."""
    grammar = session.program.grammar
    tail = prompt[max(_behind(prompt, grammar.anchors), 0) :]
    over = _behind(tail, grammar.stops)
    if over >= 0 or len(tail) == len(prompt):
        # No turn was opened, or it is over: from the last marker that the beginning of a turn knows.
        tail = tail[max(over, 0) :][-_TAIL:]
        found = max((tail.rfind(marker) for marker in session.markers_here()), default=-1)
        tail = tail[found:] if found >= 0 else ""
    if not tail:
        return
    session.start_at("prompt")
    session.feed(tail)
    session.forget()
