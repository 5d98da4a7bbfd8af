"""What all tests share: where the fixtures are, and how hard Hypothesis tries.

Profiles, chosen by HYPOTHESIS_PROFILE (default: ``ci`` where CI is set, else ``dev``):
    ci        the same examples on every run
    dev       new examples on every run, failures remembered
    thorough  many more; for the night, or before a release
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No deadline: examples share two cores with other test processes, time is measured by `toolgrammar bench`.
_SLOW = [HealthCheck.too_slow]
settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=60, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile("dev", deadline=None, max_examples=60, suppress_health_check=_SLOW)
settings.register_profile("thorough", deadline=None, max_examples=2000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def fixtures(root: Path) -> Path:
    """The folder of cases and captures."""
    return root / "fixtures"
