"""Nothing is contacted unless the user allows it, also where a script imported the Hub's libraries before srnet.

`tests/test_fresh_processes.py` checks the program as a whole.
"""

from __future__ import annotations

import ast
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets.config
import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _detect_agent
from refusals import refused

import srnet
from srnet.audit.run import load_models
from srnet.core.lazy import transformers
from srnet.core.network import NO_TELEMETRY, OFFLINE, _own_folder, guarded_hub, isolate_process
from srnet.experiment.engine import Engine
from srnet.experiment.ray import _import_ray
from srnet.models.checkpoints import read_config, read_model, read_tokenizer
from srnet.models.formats.graphs import _import_onnxruntime
from srnet.tasks.reading import read_rows
from srnet.tasks.synthetic import SyntheticTask

NAME = "nobody/has-this-model"


@pytest.fixture
def lookups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hosts that were looked up, in a process whose libraries may use the network."""
    for module in (constants, datasets.config):
        monkeypatch.setattr(module, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", False)
    monkeypatch.setattr(constants, "AGENT_HARNESSES_PATH", os.devnull + "/none")
    monkeypatch.setattr(_detect_agent, "_registry", None)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.delenv("SRNET_DOWNLOAD", raising=False)
    found: list[str] = []

    def refuse(host: Any, *rest: Any, **more: Any) -> Any:
        found.append(str(host))
        raise socket.gaierror(f"a test looks up {host}")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return found


def read_weights() -> None:
    """Of a model whose configuration is in the cache, without its weights."""
    folder = Path(constants.HF_HUB_CACHE) / f"models--{NAME.replace('/', '--')}"
    for file, text in {"refs/main": "0" * 40, f"snapshots/{'0' * 40}/config.json": '{"model_type": "bert"}'}.items():
        (folder / file).parent.mkdir(parents=True)
        (folder / file).write_text(text)
    assert read_config(NAME).model_type == "bert"
    read_model(transformers.AutoModel, NAME)


READERS: dict[str, Callable[[], object]] = {
    "configuration": lambda: read_config(NAME),
    "tokenizer": lambda: read_tokenizer(NAME),
    "weights": read_weights,
    "audit": lambda: load_models([NAME], SyntheticTask("inference"), Engine(), None),
    "data": lambda: list(read_rows(f"hub:{NAME}:train")),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_hub_name_contacts_nothing(read: Callable[[], object], lookups: list[str]) -> None:
    with refused("SRNET_DOWNLOAD"):
        read()
    assert lookups == []
    # what the script does itself is its own business
    assert not constants.HF_HUB_OFFLINE
    assert not datasets.config.HF_HUB_OFFLINE
    assert not constants.HF_HUB_DISABLE_TELEMETRY


def test_downloads_that_are_allowed_send_no_telemetry(lookups: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRNET_DOWNLOAD", "1")
    with guarded_hub():
        assert (constants.HF_HUB_OFFLINE, constants.HF_HUB_DISABLE_TELEMETRY) == (False, True)
    assert not constants.HF_HUB_DISABLE_TELEMETRY


def test_settings_come_back_after_the_last_block_of_all_threads(lookups: list[str]) -> None:
    first, second = guarded_hub(), guarded_hub()
    first.__enter__()
    second.__enter__()
    for block, offline in ((first, True), (second, False)):
        block.__exit__(None, None, None)
        assert [offline, offline] == [constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE]


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("own", [None, "1"])
def test_datasets_imported_in_a_block_is_not_offline_for_good(
    own: str | None, blocks: int, lookups: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without(monkeypatch, "HF_DATASETS_OFFLINE")
    if own is not None:
        monkeypatch.setenv("HF_DATASETS_OFFLINE", own)
    monkeypatch.delitem(sys.modules, "datasets.config")
    with guarded_hub():
        late = SimpleNamespace(HF_HUB_OFFLINE=constants.HF_HUB_OFFLINE)  # as the module does
        monkeypatch.setitem(sys.modules, "datasets.config", late)  # type: ignore[arg-type]
        for _ in range(1, blocks):
            with guarded_hub():
                assert late.HF_HUB_OFFLINE
        assert late.HF_HUB_OFFLINE
    assert late.HF_HUB_OFFLINE is (own is not None)  # a variable that the user has set holds


@pytest.mark.parametrize("allowed", [False, True])
def test_the_program_is_offline_unless_downloads_are_allowed(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"RAY_USAGE_STATS_ENABLED": "1", "SRNET_DOWNLOAD": "1" if allowed else "0"})
    isolate_process()
    assert (os.environ.items() >= OFFLINE.items()) is not allowed
    assert os.environ.keys() >= NO_TELEMETRY.keys()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"  # as the user has it


def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Variables that are not set, and are after the test what they were before."""
    for name in names:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.mark.parametrize(("address", "on_loopback"), [(None, True), ("local", True), ("192.0.2.1:6379", False)])
def test_a_ray_of_its_own_stays_on_this_machine(
    address: str | None, on_loopback: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("ray", reason="ray is an extra")
    without(monkeypatch, "RAY_ADDRESS", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_USAGE_STATS_ENABLED")
    if address is not None:
        monkeypatch.setenv("RAY_ADDRESS", address)
    _import_ray()
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == ("0" if on_loopback else None)


def test_onnxruntime_gets_no_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is an extra")
    calls: list[str] = []
    without(monkeypatch, "ORT_DISABLE_TELEMETRY")
    monkeypatch.setattr(onnxruntime, "disable_telemetry_events", lambda: calls.append("disabled"))
    _import_onnxruntime()
    assert (calls, os.environ["ORT_DISABLE_TELEMETRY"]) == (["disabled"], "1")


ONE_PLACE = {
    "from_pretrained": "checkpoints.py",
    "load_dataset": "reading.py",
    "onnxruntime": "graphs.py",
    "ray": "ray.py",
}
"""Calls and imports that need care, and the one file of srnet that has them."""


def names_in(file: Path) -> set[str]:
    """Functions that are called, and modules that are imported."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            found.add(getattr(node.func, "attr", getattr(node.func, "id", "")))
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found


def test_each_library_that_may_use_the_network_is_called_in_one_place() -> None:
    files = [path for path in Path(srnet.__file__).parent.rglob("*.py") if names_in(path) & ONE_PLACE.keys()]
    assert {(name, path.name) for path in files for name in names_in(path) & ONE_PLACE.keys()} == set(ONE_PLACE.items())


def test_a_folder_that_somebody_else_has_made_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    own = Path(_own_folder("fonts"))
    assert own == Path(_own_folder("fonts"))
    assert own.stat().st_mode & 0o777 == 0o700
    own.rmdir()
    (tmp_path / "elsewhere").mkdir()
    own.symlink_to(tmp_path / "elsewhere")
    assert Path(_own_folder("fonts")).parent == tmp_path
    assert Path(_own_folder("fonts")) != own
