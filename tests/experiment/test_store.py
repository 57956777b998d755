"""The store by itself: whole artifacts or none, damage found, leftovers removed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from srnet.core.errors import UserError
from srnet.experiment.store import Store

KEY, OTHER = "aaaa000000000000", "aabb000000000000"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store").open()


def put(store: Store, key: str, text: str = "content") -> Path:
    with store.writing(key, "Thing", "a thing", {"type": "Thing"}, "0") as folder:
        (folder / "data.txt").write_text(text)
        (folder / "inner").mkdir()
        (folder / "inner" / "more.txt").write_text(text)
    return store.path(key)


def fail(store: Store, key: str) -> None:
    with store.writing(key, "Thing", "a thing", {}, "0") as folder:
        (folder / "data.txt").write_text("half")
        raise RuntimeError


def again(store: Store) -> Store:
    """As another process sees it."""
    return Store(store.root)


def test_written_whole(store: Store) -> None:
    put(store, KEY)
    assert again(store).has(KEY)
    assert set(store.manifest(KEY)["files"]) == {"data.txt", "inner/more.txt"}
    assert store.keys() == [KEY]
    assert [entry.label for entry in store.entries()] == ["a thing"]


def test_an_exception_leaves_nothing(store: Store) -> None:
    with pytest.raises(RuntimeError):
        fail(store, KEY)
    assert not store.has(KEY)
    assert list(store.artifacts.iterdir()) == []


def test_an_exception_leaves_what_was_there(store: Store) -> None:
    put(store, KEY, "old")
    with pytest.raises(RuntimeError):
        fail(store, KEY)
    assert (store.path(KEY) / "data.txt").read_text() == "old"
    assert again(store).has(KEY)


def test_checkpoints_go_when_the_artifact_is_there(store: Store) -> None:
    store.work(KEY).mkdir(parents=True)
    put(store, KEY)
    assert not store.work(KEY).exists()


def killed_after_its_rename(store: Store) -> Path:
    """The checkpoints of an artifact that is whole."""
    put(store, KEY)
    work = store.work(KEY)
    work.mkdir()
    os.utime(work, (0, 0))
    return work


def test_checkpoints_of_a_whole_artifact_are_leftovers(store: Store) -> None:
    work = killed_after_its_rename(store)
    (store.root / "locks" / ".probe-1").touch()
    (store.root / "locks" / "run-1-2.lock").touch()
    store.work(OTHER).mkdir()
    again(store).tidy()
    assert not work.exists()
    assert store.work(OTHER).exists(), "it is to be continued"
    assert list((store.root / "locks").iterdir()) == []
    assert store.keys() == [KEY]


def test_checkpoints_of_an_artifact_that_is_computed_again_are_kept(store: Store) -> None:
    altered(put(store, KEY))
    os.utime(store.path(KEY), (0, 0))
    store.work(KEY).mkdir()
    again(store).tidy()
    assert store.work(KEY).exists()


def test_gc_names_what_it_removes_once(store: Store) -> None:
    work = killed_after_its_rename(store)
    assert store.gc() == [work]


def altered(folder: Path) -> None:
    (folder / "data.txt").write_text("CONTENT")  # as long as before


def truncated(folder: Path) -> None:
    (folder / "inner" / "more.txt").write_text("con")


def missing(folder: Path) -> None:
    (folder / "data.txt").unlink()


def no_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def broken_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"files": ')


def senseless_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


@pytest.mark.parametrize("damage", [altered, truncated, missing, no_manifest, broken_manifest, senseless_manifest])
def test_damage_is_found_and_named(store: Store, damage) -> None:  # type: ignore[no-untyped-def]
    damage(put(store, KEY))
    put(store, OTHER)
    fresh = again(store)
    assert not fresh.has(KEY)
    assert KEY in fresh.corrupt
    assert str(fresh.path(KEY)) in fresh.corrupt[KEY]
    assert list(fresh.verify()) == [KEY]
    assert len(fresh.entries()) == 2
    assert fresh.has(OTHER)
    put(fresh, KEY)
    assert again(fresh).has(KEY)
    assert fresh.verify() == fresh.corrupt == {}


def test_gc_removes_leftovers_and_damage_alone(store: Store) -> None:
    put(store, KEY)
    altered(put(store, OTHER))
    leftovers = [
        store.artifacts / f".new-{KEY}-x1",
        store.artifacts / f".old-{KEY}-x2",
        store.work("cccc000000000000"),
    ]
    for path in leftovers:
        path.mkdir(parents=True)
    removed = store.gc()
    assert sorted(removed) == sorted([*leftovers, store.path(OTHER)])
    assert store.keys() == [KEY]
    assert store.gc() == []


def test_gc_by_age(store: Store) -> None:
    old = put(store, KEY)
    put(store, OTHER)
    os.utime(old, (0, 0))
    assert store.gc(older_than=1.0) == [old]
    assert store.keys() == [OTHER]


def test_gc_leaves_what_is_being_computed(store: Store) -> None:
    store.work(KEY).mkdir()
    with store.lock(KEY):
        assert again(store).gc() == []
    assert again(store).gc() == [store.work(KEY)]


def test_find_by_prefix(store: Store) -> None:
    put(store, KEY)
    put(store, OTHER)
    assert store.find("aab") == OTHER
    with pytest.raises(UserError, match="2 artifacts"):
        store.find("aa")
    with pytest.raises(UserError, match="no artifact"):
        store.find("ff")


def test_the_lock_is_held_and_waited_for(store: Store) -> None:
    waited, order = threading.Event(), []

    def second() -> None:
        with again(store).lock(KEY, on_wait=waited.set):
            order.append("second")

    thread = threading.Thread(target=second)
    with store.lock(KEY):
        thread.start()
        assert waited.wait(10)
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(UserError, match="there is a file where a folder is needed"):
            Store(root).open()


def test_an_empty_or_absent_store_can_be_looked_at(tmp_path: Path) -> None:
    store = Store(tmp_path / "nowhere")
    assert (store.keys(), store.entries(), store.verify(), store.gc()) == ([], [], {}, [])
    assert not (tmp_path / "nowhere").exists()
