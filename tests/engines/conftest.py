"""What the tests with real processes share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import Nest, Observed, opened_nest


@pytest.fixture(scope="session")
def nest() -> Iterator[Nest]:
    with opened_nest() as nest:
        yield nest


@pytest.fixture
def observed(tmp_path: Path) -> Observed:
    return Observed(tmp_path / "observed")
