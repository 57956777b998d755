"""A store that a disk, a kill or a person has damaged, or that is not there."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import refused, run

from srnet import api
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.store import Store

KEY, OTHER, GONE = "aaaa000000000000", "aabb000000000000", "cccc000000000000"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open()


def put(store: Store, key: str) -> Path:
    with store.writing(key, "Thing", "a thing", {"type": "Thing"}, "0") as folder:
        (folder / "data.txt").write_text("content")
    return store.path(key)


# --- gc ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("days", [-1.0, -1e-9, math.nan, math.inf, -math.inf])
def test_what_is_no_age_removes_nothing(store: Store, days: float) -> None:
    put(store, KEY)
    with pytest.raises(UserError, match=r"is not an age; give 0 or more days"):
        store.gc(days)
    assert store.keys() == [KEY]


def test_a_negative_age_on_the_command_line(store: Store, monkeypatch: Any, capsys: Any) -> None:
    put(store, KEY)
    assert "-1 days is not an age" in refused(
        monkeypatch, capsys, "store", "gc", "--older-than", -1, "--store", store.root
    )
    assert store.keys() == [KEY]


def test_artifacts_of_a_live_run_are_not_removed_by_age(store: Store) -> None:
    """Each was computed long ago, and none of them is locked: the run needs them as parents."""
    put(store, KEY)
    with store.in_use():
        with pytest.raises(UserError, match="a run is using"):
            Store(store.root).gc(older_than=0.0)
        assert Store(store.root).gc() == [], "without an age it is safe"
    assert store.keys() == [KEY]
    assert Store(store.root).gc(older_than=0.0) == [store.path(KEY)]


def test_an_engine_uses_its_store_while_it_computes(
    engine: Engine, raw: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def compute(*args: object) -> None:
        with pytest.raises(UserError, match="a run is using"):
            Store(engine.store.root).gc(older_than=0.0)
        seen.append(True)

    monkeypatch.setattr("srnet.experiment.compute.compute", compute)
    engine.execute([raw])
    assert seen == [True]


# --- a store that is not there, or cannot be written -----------------------------------------------------------------


@pytest.mark.parametrize("command", [("ls",), ("verify",), ("gc",), ("show", "aaaa")])
def test_a_mistyped_folder_is_not_an_empty_store(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    said = refused(monkeypatch, capsys, "store", *command, "--store", tmp_path / "nowhere")
    assert f"there is no store at {tmp_path / 'nowhere'}" in said
    assert not (tmp_path / "nowhere").exists()


def test_what_is_stored_can_be_read_where_nothing_can_be_written(
    engine: Engine, raw: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.evaluate(_pruned(engine, raw), engine=engine)

    def refuse(*args: object, **kwargs: object) -> Any:
        raise UserError("read-only file system")

    for name in ("open", "_held", "writing"):
        monkeypatch.setattr(Store, name, refuse)
    fresh = Engine(Store(engine.store.root), Reporter(quiet=True))
    assert "dev" in api.evaluate(_pruned(fresh, raw), engine=fresh).scores


def _pruned(engine: Engine, raw: Pretrained) -> str:
    engine.execute([raw, Evaluate(raw)])
    return raw.key


def test_files_have_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    script = (
        "import os; os.umask(0o027); from pathlib import Path; from srnet.core.files import *\n"
        "write_text(Path('file'), '')\n"
        "with new_folder(Path('folder')) as staging: (staging / 'inner').mkdir(); write_text(staging / 'f', '')"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    modes = {str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")}
    assert modes == {"file": "0o640", "folder": "0o750", "folder/inner": "0o750", "folder/f": "0o640"}


# --- damage --------------------------------------------------------------------------------------------------------

FORGED = {
    "no object": "null",
    "a list": "[]",
    "nothing": "{}",
    "no files": '{"files": null}',
    "deep": "[" * 100_000,
    "a long number": "9" * 10_000,
    "not text": b"\xff\xfe",
}


def manifests(whole: dict[str, Any]) -> dict[str, str | bytes]:
    """Manifests with one thing wrong."""
    without = {f"without {key}": json.dumps({k: v for k, v in whole.items() if k != key}) for key in NEEDED}
    wrong = {f"{key} is a list": json.dumps({**whole, key: []}) for key in NEEDED}
    files: dict[str, Any] = {
        "null facts": {"data.txt": None},
        "no sum": {"data.txt": {"bytes": 7}},
        "no size": {"data.txt": {"sha256": "x"}},
        "a size in words": {"data.txt": {"bytes": "7", "sha256": "x"}},
        "a file elsewhere": {"../../../../etc/passwd": {"bytes": 7, "sha256": "x"}},
        "an absolute file": {"/etc/passwd": {"bytes": 7, "sha256": "x"}},
        "a NUL": {"a\0b": {"bytes": 7, "sha256": "x"}},
        "a size beyond any disk": {"data.txt": {"bytes": 10**400, "sha256": "x"}},
    }
    times = {f"{each} seconds": json.dumps({**whole, "seconds": each}) for each in (10**400, -1, math.nan, math.inf)}
    return {
        **FORGED,
        **without,
        **wrong,
        **times,
        **{name: json.dumps({**whole, "files": f}) for name, f in files.items()},
    }


NEEDED = ("type", "label", "expression", "files", "seconds", "created")


def test_one_damaged_manifest_disables_no_command(store: Store, monkeypatch: Any, capsys: Any) -> None:
    put(store, KEY)
    path = put(store, OTHER) / "manifest.json"
    for name, text in manifests(json.loads(path.read_text())).items():
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        fresh = Store(store.root)
        assert list(fresh.verify()) == [OTHER], name
        assert {entry.key: entry.type for entry in fresh.entries()} == {KEY: "Thing", OTHER: "damaged"}, name
        assert fresh.has(KEY), name
        assert not fresh.has(OTHER), name
        with pytest.raises(UserError):
            fresh.manifest(OTHER)
    assert run(monkeypatch, "store", "ls", "--store", store.root) == 0
    assert KEY in capsys.readouterr().out
    assert refused(monkeypatch, capsys, "store", "show", OTHER, "--store", store.root)
    assert store.gc() == [store.path(OTHER)]


def test_what_lies_between_the_artifacts_is_no_artifact(store: Store) -> None:
    put(store, KEY)
    for name in ("x", "[x]", "a b", "é", KEY.upper(), f"{KEY}.bak"):
        (store.artifacts / name).mkdir()
    (store.artifacts / OTHER).write_text("a file")
    assert store.keys() == [KEY, OTHER]
    assert list(store.verify()) == [OTHER]


@pytest.mark.parametrize(
    "change",
    [
        lambda expression: {**expression, "task": 3},
        lambda expression: {**expression, "backbone": {"type": "Pretrained"}},
        lambda expression: {key: value for key, value in expression.items() if key != "backbone"},
        lambda expression: {**expression, "seed": [[[["x"]]]]},
        lambda expression: {"type": ["Pretrained"]},
        lambda expression: {"type": "os.system", "command": "id"},
    ],
)
def test_an_edited_expression_is_said(change: Any, engine: Engine, raw: Pretrained) -> None:
    engine.execute([raw])
    path = engine.store.path(raw.key) / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "expression": change(manifest["expression"])}))
    with pytest.raises(UserError):
        api.evaluate(raw.key, engine=Engine(Store(engine.store.root), Reporter(quiet=True)))


# --- leftovers -----------------------------------------------------------------------------------------------------


def leftovers(store: Store) -> list[str]:
    hidden = [path.name for path in store.artifacts.iterdir() if path.name.startswith(".")]
    return sorted(hidden + [path.name for path in (store.root / "locks").iterdir()])


def test_the_next_run_removes_what_a_killed_one_left(store: Store) -> None:
    put(store, KEY)
    (store.artifacts / f".new-{GONE}-x1").mkdir()
    (store.artifacts / f".old-{GONE}-x2").mkdir()
    (store.root / "locks" / f"{GONE}.lock").write_text("")
    (store.root / "locks" / "run-1-1.lock").write_text("")
    assert len(leftovers(store)) == 4
    Store(store.root).open()
    assert leftovers(store) == []
    assert store.keys() == [KEY]


def test_what_a_live_process_writes_is_left_alone(store: Store) -> None:
    (store.artifacts / f".new-{GONE}-x1").mkdir()
    with store.lock(GONE), store.in_use():
        before = leftovers(store)
        Store(store.root).open()
        assert leftovers(store) == before
        assert len(before) == 3


def test_a_lock_leaves_no_file(store: Store) -> None:
    with store.lock(KEY):
        assert leftovers(store) == [f"{KEY}.lock"]
    assert leftovers(store) == []


WAITER = """
import os, sys, time
from srnet.experiment.store import Store
store, log = Store(sys.argv[1]), sys.argv[2]
for _ in range(30):
    with store.lock("aaaa000000000000"):
        flags = os.open(log, os.O_CREAT | os.O_EXCL)  # fails if another process is inside
        time.sleep(0.001)
        os.close(flags)
        os.unlink(log)
"""


def test_two_processes_never_hold_one_lock_though_its_file_is_removed(store: Store, tmp_path: Path) -> None:
    command = [sys.executable, "-c", WAITER, str(store.root), str(tmp_path / "inside")]
    waiting = [subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}) for _ in range(2)]
    assert [process.wait() for process in waiting] == [0, 0]
