"""Which formats a text, a chat template or a model directory speaks for, with the reasons.

Text: every format reads it. What counts is the calls it finds, the markers of its own that are there (a
marker few formats have says more), and the markers of anybody's that it leaves as plain text. Template and
directory: the ``@detect`` lines of the grammars; then the model's name."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolgrammar import registry
from toolgrammar.cli.grammars import markers_of

#: A text is judged by its beginning.
TEXT_LIMIT = 200_000


@dataclass
class Candidate:
    """A format, how much speaks for it, and why."""

    format: str
    score: float = 0.0
    reasons: list[str] = field(default_factory=list)


def rank_text(text: str) -> list[Candidate]:
    """The formats that something in ``text`` speaks for, best first."""
    text = text[:TEXT_LIMIT]
    markers = {
        name: {marker.text for marker in markers_of(registry.load(name)) if len(marker.text.strip()) > 2}
        for name in registry.formats()
    }
    owners = Counter(marker for owned in markers.values() for marker in owned)
    present = {marker for marker in owners if marker in text}
    found = [
        _by_text(name, text, owned & present, present, owners, len(markers)) for name, owned in markers.items()
    ]
    return _ranked(found)


def _by_text(
    name: str, text: str, mine: set[str], present: set[str], owners: Counter[str], formats: int
) -> Candidate:
    candidate = Candidate(name)
    for marker in sorted(mine, key=lambda each: (owners[each], -len(each), each)):
        rare = 1 + math.log2(formats / owners[marker])
        candidate.score += rare * min(len(marker), 20) / 10
        owner = "only here" if owners[marker] == 1 else f"{owners[marker]} formats have it"
        candidate.reasons.append(f"has the marker {marker.strip()} ({owner})")
    message = _read(name, text)
    states = Counter(call.status for call in message.calls)
    if states["complete"]:
        candidate.score += 20
        candidate.reasons.insert(0, f"reads {_count(states['complete'], 'whole call')}")
    for status in ("incomplete", "malformed"):
        if states[status]:
            candidate.score += 5 if status == "incomplete" else 1
            candidate.reasons.append(f"reads {_count(states[status], f'{status} call')}")
    said = (message.reasoning or "") + "\n" + (message.content or "") + "\n" + message.tail
    left = sorted(marker for marker in present if marker in said)
    if left and (mine or message.calls):
        candidate.score -= len(left)
        candidate.reasons.append(f"leaves as text: {', '.join(marker.strip() for marker in left[:3])}")
    return candidate


def _read(name: str, text: str) -> Any:
    from toolgrammar import parse

    return parse(text, model=name)


def rank_template(template: str) -> list[Candidate]:
    """The formats whose ``@detect`` lines hold for a chat template, most telling first."""
    from toolgrammar.language.detect import Evidence

    return _by_evidence(Evidence(template=template))


def rank_directory(folder: Path) -> list[Candidate]:
    """The formats whose ``@detect`` lines hold for a model directory, else those that its name fits."""
    from toolgrammar.language.evidence import gather

    evidence, names = gather(folder)
    by_evidence = _by_evidence(evidence)
    known = registry.default().known
    if by_evidence and known[by_evidence[0].format].rank < registry.LATE:
        return by_evidence
    by_name = []
    for name, about in known.items():
        for pattern in about.models:
            if any(pattern in each.lower() for each in names):
                by_name.append(Candidate(name, len(pattern) / 100, [f"the model's name contains {pattern!r}"]))
    return sorted(_ranked(by_name), key=lambda each: known[each.format].rank) or by_evidence


def _by_evidence(evidence: Any) -> list[Candidate]:
    """In the order of the registry; the score only says how much each line says."""
    found = []
    for name, terms in registry.default().by_evidence(evidence):
        count, length = evidence.weight(terms)
        weight = (count * 10 + length / 10) / (1 + registry.default().known[name].rank)
        found.append(Candidate(name, weight, [_term(term) for term in terms]))
    return found


def _term(term: Any) -> str:
    return f"{term.kind} {'does not have' if term.negated else 'has'} {term.text}"


def _ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Best first; of equals the one that goes by more names, which is the more common one."""
    known = registry.default().known

    def place(each: Candidate) -> tuple[float, int, str]:
        about = known[each.format]
        return (-round(each.score, 3), -len(about.names) - len(about.models), each.format)

    return sorted((each for each in candidates if each.score > 0), key=place)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
