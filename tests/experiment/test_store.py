"""The store: whole artifacts or none, damage found, leftovers removed, one process per lock."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import run
from refusals import command_refused, refused

from srnet.api.models import evaluate
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.store import Store

KEY, OTHER, GONE = "aaaa000000000000", "aabb000000000000", "cccc000000000000"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open()


def put(store: Store, key: str, text: str = "content") -> Path:
    with store.writing(key, "Thing", "a thing", {"type": "Thing"}, "0") as folder:
        (folder / "data.txt").write_text(text)
        (folder / "inner").mkdir()
        (folder / "inner" / "more.txt").write_text(text)
    return store.path(key)


def again(store: Store) -> Store:
    """The store as another process sees it."""
    return Store(store.root)


# --- writing and reading ---------------------------------------------------------------------------------------------


def test_written_whole(store: Store) -> None:
    store.work(KEY).mkdir(parents=True)
    put(store, KEY)
    assert again(store).has(KEY)
    assert set(store.manifest(KEY)["files"]) == {"data.txt", "inner/more.txt"}
    assert store.keys() == [KEY]
    assert [entry.label for entry in store.entries()] == ["a thing"]
    assert not store.work(KEY).exists(), "its checkpoints are no longer needed"


@pytest.mark.parametrize("before", [(), ("old",)])
def test_an_exception_leaves_what_was_there(store: Store, before: tuple[str, ...]) -> None:
    def fail() -> None:
        with store.writing(KEY, "Thing", "a thing", {}, "0") as folder:
            (folder / "data.txt").write_text("half")
            raise RuntimeError

    for text in before:
        put(store, KEY, text)
    with pytest.raises(RuntimeError):
        fail()
    assert again(store).has(KEY) == bool(before)
    assert [path.read_text() for path in store.artifacts.rglob("data.txt")] == list(before)
    assert [path.name for path in store.artifacts.iterdir()] == [KEY] * len(before)


def test_find_by_prefix(store: Store) -> None:
    put(store, KEY)
    put(store, OTHER)
    assert store.find("aab") == OTHER
    for prefix in ("aa", "ff"):
        with refused(f"'{prefix}'", "store ls"):
            store.find(prefix)


def test_what_lies_between_the_artifacts_is_no_artifact(store: Store) -> None:
    put(store, KEY)
    for name in ("x", "[x]", "a b", "é", KEY.upper(), f"{KEY}.bak"):
        (store.artifacts / name).mkdir()
    (store.artifacts / OTHER).write_text("a file")
    assert store.keys() == [KEY, OTHER]
    assert list(store.verify()) == [OTHER]


def test_files_have_the_permissions_that_the_user_wants(tmp_path: Path) -> None:
    script = (
        "import os; os.umask(0o027); from pathlib import Path; from srnet.core.files import *\n"
        "write_text(Path('file'), '')\n"
        "with new_folder(Path('folder')) as staging: (staging / 'inner').mkdir(); write_text(staging / 'f', '')"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    modes = {str(path.relative_to(tmp_path)): oct(path.stat().st_mode & 0o777) for path in tmp_path.rglob("*")}
    assert modes == {"file": "0o640", "folder": "0o750", "folder/inner": "0o750", "folder/f": "0o640"}


# --- a store that is not there, or cannot be written -----------------------------------------------------------------


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "inside"):
        with refused(tmp_path / "file", "folder"):
            Store(root).open()


def test_an_absent_store_is_empty_in_python_and_an_error_on_the_command_line(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    nowhere = tmp_path / "nowhere"
    store = Store(nowhere)
    assert (store.keys(), store.entries(), store.verify(), store.gc()) == ([], [], {}, [])
    for command in (("ls",), ("verify",), ("gc",), ("show", "aaaa")):
        assert str(nowhere) in command_refused(monkeypatch, capsys, "store", *command, "--store", nowhere)
    assert not nowhere.exists()


def test_what_is_stored_can_be_read_where_nothing_can_be_written(
    engine: Engine, raw: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.execute([raw, Evaluate(raw)])

    def refuse(*args: object, **kwargs: object) -> Any:
        raise UserError("read-only file system")

    for name in ("open", "lock", "writing"):
        monkeypatch.setattr(Store, name, refuse)
    fresh = Engine(again(engine.store), Reporter(quiet=True))
    fresh.execute([raw, Evaluate(raw)])
    assert "dev" in evaluate(raw.key, engine=fresh).scores


# --- damage ----------------------------------------------------------------------------------------------------------

DAMAGES: dict[str, Callable[[Path], object]] = {
    "altered, as long as before": lambda folder: (folder / "data.txt").write_text("CONTENT"),
    "truncated": lambda folder: (folder / "inner" / "more.txt").write_text("con"),
    "missing": lambda folder: (folder / "data.txt").unlink(),
    "no manifest": lambda folder: (folder / "manifest.json").unlink(),
}


def altered(folder: Path) -> None:
    DAMAGES["altered, as long as before"](folder)


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(store: Store, damage: str) -> None:
    DAMAGES[damage](put(store, KEY))
    put(store, OTHER)
    fresh = again(store)
    assert not fresh.has(KEY)
    assert str(fresh.path(KEY)) in fresh.corrupt[KEY]
    assert list(fresh.verify()) == [KEY]
    assert len(fresh.entries()) == 2
    assert fresh.has(OTHER)
    put(fresh, KEY)
    assert again(fresh).has(KEY)
    assert fresh.verify() == fresh.corrupt == {}


NEEDED = ("type", "label", "expression", "files", "seconds", "created")
FORGED = ("null", "[]", "{}", '{"files": ', '{"files": null}', "[" * 100_000, "9" * 10_000, b"\xff\xfe")
FILES: tuple[Any, ...] = (
    {"data.txt": None},
    {"data.txt": {"bytes": 7}},
    {"data.txt": {"sha256": "x"}},
    {"data.txt": {"bytes": "7", "sha256": "x"}},
    {"../../../../etc/passwd": {"bytes": 7, "sha256": "x"}},
    {"/etc/passwd": {"bytes": 7, "sha256": "x"}},
    {"a\0b": {"bytes": 7, "sha256": "x"}},
    {"data.txt": {"bytes": 10**400, "sha256": "x"}},
)


def manifests(whole: dict[str, Any]) -> list[str | bytes]:
    """Manifests with one thing wrong."""
    without = [{k: v for k, v in whole.items() if k != key} for key in NEEDED]
    wrong = [{**whole, key: []} for key in NEEDED]
    times = [{**whole, "seconds": each} for each in (10**400, -1, math.nan, math.inf)]
    return [*FORGED, *map(json.dumps, (*without, *wrong, *times, *({**whole, "files": each} for each in FILES)))]


def test_one_damaged_manifest_disables_no_command(store: Store, monkeypatch: Any, capsys: Any) -> None:
    put(store, KEY)
    path = put(store, OTHER) / "manifest.json"
    for text in manifests(json.loads(path.read_text())):
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        fresh = again(store)
        assert list(fresh.verify()) == [OTHER], text[:80]
        assert {entry.key: entry.type for entry in fresh.entries()} == {KEY: "Thing", OTHER: "damaged"}, text[:80]
        assert fresh.has(KEY), text[:80]
        assert not fresh.has(OTHER), text[:80]
        with pytest.raises(UserError):
            fresh.manifest(OTHER)
    assert run(monkeypatch, "store", "ls", "--store", store.root) == 0
    assert KEY in capsys.readouterr().out
    assert command_refused(monkeypatch, capsys, "store", "show", OTHER, "--store", store.root)
    assert store.gc() == [store.path(OTHER)]


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
def test_an_edited_expression_is_refused(change: Any, engine: Engine, raw: Pretrained) -> None:
    engine.execute([raw])
    path = engine.store.path(raw.key) / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(json.dumps({**manifest, "expression": change(manifest["expression"])}))
    with pytest.raises(UserError):
        evaluate(raw.key, engine=Engine(again(engine.store), Reporter(quiet=True)))


# --- gc and leftovers ------------------------------------------------------------------------------------------------


def hidden(store: Store) -> list[str]:
    """The names of incomplete artifacts and of locks."""
    incomplete = [path.name for path in store.artifacts.iterdir() if path.name.startswith(".")]
    return sorted(incomplete + [path.name for path in (store.root / "locks").iterdir()])


def leave(store: Store) -> list[Path]:
    """The leftovers of killed processes that computed `GONE`."""
    folders = [store.artifacts / f".new-{GONE}-x1", store.artifacts / f".old-{GONE}-x2"]
    for folder in folders:
        folder.mkdir()
    for name in (f"{GONE}.lock", "run-1-1.lock", ".probe-1"):
        (store.root / "locks" / name).touch()
    return folders


@pytest.mark.parametrize("sweep", [Store.open, Store.tidy, Store.gc])
def test_the_next_run_removes_what_a_killed_one_left(store: Store, sweep: Callable[[Store], Any]) -> None:
    put(store, KEY)
    leave(store)
    assert len(hidden(store)) == 5
    sweep(again(store))
    assert hidden(store) == []
    assert store.keys() == [KEY]


def test_checkpoints_of_a_whole_artifact_are_leftovers(store: Store) -> None:
    put(store, KEY)
    store.work(KEY).mkdir()
    os.utime(store.work(KEY), (0, 0))  # the process was killed after its rename
    store.work(OTHER).mkdir()
    again(store).tidy()
    assert not store.work(KEY).exists()
    assert store.work(OTHER).exists(), "it is to be continued"


def test_checkpoints_of_an_artifact_that_is_computed_again_are_kept(store: Store) -> None:
    altered(put(store, KEY))
    os.utime(store.path(KEY), (0, 0))
    store.work(KEY).mkdir()
    again(store).tidy()
    assert store.work(KEY).exists()


def test_gc_removes_leftovers_and_damage_alone(store: Store) -> None:
    put(store, KEY)
    altered(put(store, OTHER))
    store.work(GONE).mkdir()
    removed = [*leave(store), store.work(GONE), store.path(OTHER)]
    assert sorted(store.gc()) == sorted(removed), "each is named once"
    assert store.keys() == [KEY]
    assert store.gc() == []


def test_gc_by_age(store: Store) -> None:
    old = put(store, KEY)
    put(store, OTHER)
    os.utime(old, (0, 0))
    assert store.gc(older_than=1.0) == [old]
    assert store.keys() == [OTHER]


@pytest.mark.parametrize("days", [-1.0, -1e-9, math.nan, math.inf, -math.inf])
def test_what_is_no_age_removes_nothing(store: Store, days: float) -> None:
    put(store, KEY)
    with refused(f"{days:g} days"):
        store.gc(days)
    assert store.keys() == [KEY]


def test_a_live_process_keeps_what_it_uses(store: Store) -> None:
    """Its parents were computed long ago and are not locked; what it computes is."""
    put(store, KEY)
    store.work(GONE).mkdir()
    (store.artifacts / f".new-{GONE}-x1").mkdir()
    with store.lock(GONE), store.in_use():
        before = hidden(store)
        again(store).open()
        assert again(store).gc() == []
        with refused(store.root):
            again(store).gc(older_than=0.0)
        assert hidden(store) == before
        assert len(before) == 3
    assert again(store).gc(older_than=0.0) == [store.artifacts / f".new-{GONE}-x1", store.work(GONE), store.path(KEY)]


def test_an_engine_uses_its_store_while_it_computes(
    engine: Engine, raw: Pretrained, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def compute(*args: object) -> None:
        with refused(engine.store.root):
            Store(engine.store.root).gc(older_than=0.0)
        seen.append(True)

    monkeypatch.setattr("srnet.experiment.compute.compute", compute)
    engine.execute([raw])
    assert seen == [True]


# --- locks -----------------------------------------------------------------------------------------------------------


def test_the_lock_is_held_and_waited_for(store: Store) -> None:
    waited, order = threading.Event(), []

    def second() -> None:
        with again(store).lock(KEY, on_wait=waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with store.lock(KEY):
        assert hidden(store) == [f"{KEY}.lock"]
        thread.start()
        assert waited.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert hidden(store) == []


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
