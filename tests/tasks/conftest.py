"""The Hub, without the Hub."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from srnet.core.names import DOWNLOAD_VARIABLE


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every attempt to reach the network. All of them fail."""
    attempts: list[object] = []

    def refuse(*address: object, **_: object) -> None:
        attempts.append(address)
        raise RuntimeError("no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    return attempts


@pytest.fixture
def hub(tmp_path: Path, network: list[object], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder in place of a repository, with its own caches. Reading it must not use the network."""
    datasets = pytest.importorskip("datasets")
    for name in ("HF_DATASETS_CACHE", "HF_MODULES_CACHE", "DOWNLOADED_DATASETS_PATH", "EXTRACTED_DATASETS_PATH"):
        monkeypatch.setattr(datasets.config, name, tmp_path / "cache" / name.lower())
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache" / "hub"))
    monkeypatch.delenv(DOWNLOAD_VARIABLE, raising=False)
    folder = tmp_path / "repository"
    folder.mkdir()
    yield folder
    assert network == []
