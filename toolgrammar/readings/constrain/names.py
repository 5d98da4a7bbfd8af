"""Which tools a format treats alike, by their names: for each, the name that stands for all of them."""

from __future__ import annotations

from toolgrammar import combinators as c
from toolgrammar.combinators import Grammar
from toolgrammar.readings.constrain.fields import ANY_NAME
from toolgrammar.readings.constrain.offer import Offer
from toolgrammar.readings.first import nodes_of
from toolgrammar.readings.headers import take


def likes(grammar: Grammar, offer: Offer) -> tuple[dict[str, str], frozenset[str]]:
    """For each tool that may be called the name that stands for it, and the special names that are offered.

    A name is special if the grammar sets it itself, as it does for interpreters, or if a choice that goes by the
    name takes another arm for it than for an ordinary one.
    """
    nodes = list(nodes_of(grammar))
    said = {node.value for node in nodes if isinstance(node, c.Let)}
    choices = [node for node in nodes if isinstance(node, c.Choose) and node.register == "name"]
    offered = frozenset({*offer.names, ANY_NAME, ANY_NAME + "2"})
    ordinary = [_arm(choice, ANY_NAME, offered) for choice in choices]
    found = {}
    for name in offer.targets:
        alike = [_arm(choice, name, offered) for choice in choices] == ordinary
        found[name] = ANY_NAME if alike and name not in said else name
    return found, frozenset(offer.names & said)


def _arm(choice: c.Choose, name: str, offered: frozenset[str]) -> int | None:
    taken = take(choice, name, offered)
    return None if taken is None else taken[0]
