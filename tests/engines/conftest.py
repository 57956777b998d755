"""What the tests with real processes share."""

from __future__ import annotations

from pathlib import Path

import pytest
from processes import Observed


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return Observed(tmp_path / "observed")
