"""One way to assert that something is refused: by the names in the error, not by its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from srnet.core.errors import UserError


@contextmanager
def refused(*names: object) -> Iterator[None]:
    """A `UserError` of one line that names each of `names`: the file, field, value or fix that it is about."""
    with pytest.raises(UserError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for name in names:
        assert str(name) in message, f"{name!r} is not named in: {message}"
