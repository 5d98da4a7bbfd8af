"""Whether an output has begun to repeat itself.

``repetition_detection`` names ``min_pattern_size`` to ``max_pattern_size`` (in tokens) and ``min_count``: the
output ends when its last tokens are one such pattern, at least ``min_count`` times in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def repeats(tokens: Sequence[int], detection: Mapping[str, int]) -> bool:
    """True if ``tokens`` ends in a repeated pattern. Costs one comparison for each pattern size in most cases."""
    longest = detection.get("max_pattern_size", 0)
    count = detection.get("min_count", 0)
    if longest < 1 or count < 2:
        return False
    for size in range(max(1, detection.get("min_pattern_size", 1)), longest + 1):
        needed = size * count
        if needed > len(tokens):
            return False
        if tokens[-1] != tokens[-1 - size]:
            continue
        if all(tokens[-1 - i] == tokens[-1 - i - size] for i in range(needed - size)):
            return True
    return False
