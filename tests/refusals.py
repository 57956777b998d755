"""What is refused, by a function or by a command: asserted by the names in the error, not by its sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from commands import error_line, run

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


def command_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """The one line of error that `srnet WORDS` ends with."""
    assert run(monkeypatch, *words) == 2
    return error_line(capsys.readouterr().err)
