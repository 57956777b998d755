"""Ray that cannot be reached, does not start, or stops: one line, nothing lost, and the same command continues."""

from __future__ import annotations

import socket

import pytest

from srnet.errors import UserError
from srnet.experiment.engines.ray import _check_address, _start, run_with_timeout

pytest.importorskip("ray")


def test_an_address_that_nobody_answers_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        for address in (f"127.0.0.1:{port}", f"ray://127.0.0.1:{port}"):
            with pytest.raises(UserError, match=f"no Ray at RAY_ADDRESS {address}.*unset RAY_ADDRESS"):
                _check_address(address)


@pytest.mark.parametrize("address", ["nonsense", "host", "host:99999999", "host:port", "http://x/y:1/"])
def test_what_is_no_address_is_said(address: str) -> None:
    with pytest.raises(UserError, match="is not an address; write host:port"):
        _check_address(address)


@pytest.mark.parametrize("address", [None, "", "auto", "local"])
def test_words_that_ray_knows_pass(address: str | None) -> None:
    _check_address(address)


def test_ray_that_does_not_start_is_one_line() -> None:
    class Broken:
        def init(self, **options: object) -> None:
            raise RuntimeError("no room\nfor sockets")

    with pytest.raises(UserError, match=r"Ray cannot be started: no room for sockets; .*--engine pool"):
        _start(Broken(), None)


def test_ray_that_never_answers_is_not_waited_for() -> None:
    assert isinstance(run_with_timeout(0.01, lambda: __import__("time").sleep(60)), TimeoutError)
    assert run_with_timeout(60.0, lambda: None) is None
