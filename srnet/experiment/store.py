"""Artifacts in one folder, by key: written atomically, checked when read, computed by one process at a time.

artifacts/KEY/   the result of a node, with manifest.json
work/KEY/        checkpoints of a running training
data/            data of tasks in memory (stored_data.py)
locks/KEY.lock   held while KEY is computed; the system releases it if the process dies
locks/run-*.lock held while a run uses the store
"""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from srnet.core.errors import UserError
from srnet.core.files import check_types, new_folder, read_json_object, sha256, write_json, writing
from srnet.core.sealed import is_inside, problem_with
from srnet.experiment.stored_data import StoredData

if TYPE_CHECKING:
    import numpy as np

    from srnet.bias.model import BiasPredictions

MANIFEST = "manifest.json"
_MANIFEST_TYPES: dict[str, Any] = {
    "type": str, "label": str, "expression": dict, "files": dict, "seconds": (int, float), "created": str,
}  # fmt: skip
_KEY = re.compile(r"[0-9a-f]{16}")
_LARGEST = 2**63
"""Bytes or seconds."""


@dataclass(frozen=True)
class _Entry:
    key: str
    type: str
    bytes: int
    created: str
    seconds: float
    label: str


class Busy(Exception):
    """Another process computes the artifact."""


class Store:
    """Models, predictions and scores in the folder `root`, by key; by default $SRNET_STORE or the user's cache."""

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root or os.environ.get("SRNET_STORE") or user_cache_path("srnet") / "store")
        self._verified: set[str] = set()
        self.corrupt: dict[str, str] = {}
        """key -> problem, for damaged artifacts that this process found."""

    def open(self) -> Store:
        """Create the folders, or raise a `UserError`. Leftovers of killed runs are removed."""
        with writing(self.root):
            for folder in (self.artifacts, self.root / "work", self.root / "locks"):
                folder.mkdir(parents=True, exist_ok=True)
            probe = self.root / "locks" / f".probe-{os.getpid()}"
            probe.write_text("")
            probe.unlink(missing_ok=True)  # another process may sweep
            self._sweep()
        return self

    def tidy(self) -> None:
        """Remove leftovers of killed runs, unless the store is read-only."""
        with suppress(OSError):
            self._sweep()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Mark the store as used by a run, so that `gc` does not remove its artifacts."""
        with self.lock(f"run-{os.getpid()}-{time.time_ns()}"):
            yield

    @property
    def data(self) -> StoredData:
        """The data of tasks in memory."""
        return StoredData(self.root)

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    def path(self, key: str) -> Path:
        return self.artifacts / key

    def work(self, key: str) -> Path:
        return self.root / "work" / key

    # --- reading ---------------------------------------------------------------------------------------------------

    def has(self, key: str) -> bool:
        """Whether the store has a complete artifact. A damaged one is recorded in `corrupt` and counts as absent."""
        if key in self._verified:
            return True
        if not self.path(key).exists():
            return False
        problem = self.problem(key)
        if problem is not None:
            self.corrupt[key] = problem
            return False
        self._verified.add(key)
        return True

    def problem(self, key: str) -> str | None:
        """The problem with an artifact's files, or None."""
        folder = self.path(key)
        try:
            files = self.manifest(key)["files"]
        except UserError:
            return f"{folder / MANIFEST} is missing or unreadable"
        found = (problem_with(folder / name, facts["sha256"], facts["bytes"]) for name, facts in files.items())
        return next(filter(None, found), None)

    def manifest(self, key: str) -> dict[str, Any]:
        path = self.path(key) / MANIFEST
        found = read_json_object(path, **_MANIFEST_TYPES)
        _check_number(path, "seconds", found["seconds"])
        for name, facts in found["files"].items():
            if not isinstance(facts, dict) or not is_inside(name):
                raise UserError(f"{path}: '{name}' is not a file of an artifact", "run `srnet store verify`")
            check_types(path, facts, bytes=int, sha256=str)
            _check_number(path, "bytes", facts["bytes"])
        return {**found, "expression": self.data.resolved(found["expression"])}

    def find(self, prefix: str) -> str:
        """The one key that begins with `prefix`."""
        found = [entry for entry in self.keys() if entry.startswith(prefix)]
        if len(found) != 1:
            what = "no artifact" if not found else f"{len(found)} artifacts"
            raise UserError(f"{what} in {self.root} with a key that begins with '{prefix}'", "see `srnet store ls`")
        return found[0]

    def keys(self) -> list[str]:
        if not self.artifacts.is_dir():
            return []
        return sorted(p.name for p in self.artifacts.iterdir() if _KEY.fullmatch(p.name))

    def require(self) -> Store:
        """An error if there is no store: a mistyped folder must not look like an empty store."""
        if not self.artifacts.is_dir():
            raise UserError(f"there is no store at {self.root}", "give its folder with --store, or set SRNET_STORE")
        return self

    def entries(self) -> list[_Entry]:
        result = []
        for key in self.keys():
            try:
                facts = self.manifest(key)
                size = sum(file["bytes"] for file in facts["files"].values())
                result.append(_Entry(key, facts["type"], size, facts["created"], facts["seconds"], facts["label"]))
            except UserError:
                result.append(_Entry(key, "damaged", 0, "", 0.0, "run `srnet store verify`"))
        return sorted(result, key=lambda entry: entry.created)

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def lock(self, name: str, on_wait: Callable[[], None] | None = None, *, wait: bool = True) -> Iterator[None]:
        """A lock that one process holds at a time. If another has it: wait for it, or raise `Busy`."""
        with writing(self.root):
            (self.root / "locks").mkdir(parents=True, exist_ok=True)
            lock = FileLock(self.root / "locks" / f"{name}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                if not wait:
                    raise Busy(name) from None
                if on_wait is not None:
                    on_wait()
                lock.acquire()
        try:
            yield
        finally:
            _release(lock)

    @contextmanager
    def writing(self, key: str, type: str, label: str, expression: Any, version: str) -> Iterator[Path]:
        """A folder to fill; it becomes the artifact, with its manifest, when the block succeeds."""
        started = time.monotonic()
        with new_folder(self.path(key), replace=True) as staging:
            yield staging
            files = sorted(p for p in staging.rglob("*") if p.is_file())
            facts = {str(p.relative_to(staging)): {"sha256": sha256(p), "bytes": p.stat().st_size} for p in files}
            manifest = {
                "key": key,
                "type": type,
                "label": label,
                "expression": self.data.portable(expression),
                "files": facts,
                "seconds": round(time.monotonic() - started, 3),
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "srnet": version,
            }
            write_json(staging / MANIFEST, manifest)
        self._verified.add(key)
        self.corrupt.pop(key, None)
        shutil.rmtree(self.work(key), ignore_errors=True)

    # --- housekeeping ----------------------------------------------------------------------------------------------

    def verify(self) -> dict[str, str]:
        """key -> problem, for every damaged artifact; data/NAME -> problem, for data that are damaged or missing."""
        problems = {path: self.data.problem(path) for path in sorted({*self.data.files(), *self._used_data()})}
        data = {f"data/{path.name}": problem for path, problem in problems.items() if problem is not None}
        return {**self._damaged(), **data}

    def _damaged(self) -> dict[str, str]:
        problems = {key: self.problem(key) for key in self.keys()}
        return {key: problem for key, problem in problems.items() if problem is not None}

    def _used_data(self) -> set[Path]:
        """The data files of tasks in memory that artifacts depend on."""
        used: set[Path] = set()
        for key in self.keys():
            with suppress(UserError):
                used |= set(self.data.used_in(self.manifest(key)["expression"]))
        return used

    def gc(self, older_than: float | None = None) -> list[Path]:
        """Remove leftovers of dead processes, damaged artifacts, and artifacts older than `older_than` days.

        Data of that age go as well, if no artifact that stays depends on them.
        """
        if older_than is not None and not 0.0 <= older_than < math.inf:
            raise UserError(f"{older_than:g} days is not an age", "give 0 or more days")
        candidates = [self.path(key) for key in self._damaged()]
        work = self.root / "work"
        candidates += list(work.iterdir()) if work.is_dir() else []
        if older_than is not None:
            if self._runs():
                raise UserError(f"a run is using {self.root}", "remove artifacts by age when it has ended")
            limit = time.time() - older_than * 86_400
            candidates += [self.path(k) for k in self.keys() if self.path(k).stat().st_mtime < limit]
        swept = self._sweep()
        removed = [path for path in dict.fromkeys(candidates) if path not in swept and self._remove_if_idle(path)]
        return swept + removed + ([] if older_than is None else self._remove_unused_data(limit))

    def _remove_unused_data(self, limit: float) -> list[Path]:
        used = self._used_data()
        unused = [path for path in self.data.files() if path not in used and path.stat().st_mtime < limit]
        for path in unused:
            path.unlink(missing_ok=True)
        return unused

    def _runs(self) -> list[Path]:
        """The locks of runs that are alive."""
        return [path for path in (self.root / "locks").glob("run-*.lock") if not _removed(path)]

    def _sweep(self) -> list[Path]:
        """Remove leftovers of killed processes: incomplete artifacts, finished work, and unused locks."""
        incomplete = list(self.artifacts.glob(".*")) if self.artifacts.is_dir() else []
        finished = [path for path in (self.root / "work").glob("*") if self._is_finished(path)]
        removed = [path for path in incomplete + finished if self._remove_if_idle(path)]
        for probe in (self.root / "locks").glob(".probe-*"):
            probe.unlink(missing_ok=True)
        for lock in (self.root / "locks").glob("*.lock"):
            _removed(lock)
        return removed

    def _is_finished(self, work: Path) -> bool:
        """Whether the artifact is newer than its checkpoints. An older one is damaged and being computed again."""
        try:
            return self.path(work.name).stat().st_mtime >= work.stat().st_mtime
        except OSError:
            return False

    def _remove_if_idle(self, path: Path) -> bool:
        key = path.name.lstrip(".").removeprefix("new-").removeprefix("old-").split("-")[0]
        return _removed(self.root / "locks" / f"{key}.lock", lambda: _remove(path))


def _check_number(path: Path, name: str, value: float) -> None:
    if not 0 <= value < _LARGEST:  # NaN is not
        raise UserError(f"{path}: '{name}' is out of range", "run `srnet store verify`")


def _removed(lock_file: Path, remove: Callable[[], None] = lambda: None) -> bool:
    """Remove something and its lock, unless a process holds the lock."""
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    try:
        remove()
    finally:
        _release(lock)
    return True


def _release(lock: FileLock) -> None:
    """Remove the file while the lock is held: a waiting process notices it, and creates a new one."""
    with suppress(OSError):  # on systems where an open file cannot be removed
        os.unlink(lock.lock_file)
    lock.release()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


# --- arrays of artifacts ---------------------------------------------------------------------------------------------

TOKENS = "{} tokens"
"""The name under which the logits of every token of a split are stored."""


def read_logits(store: Store, key: str) -> dict[str, np.ndarray]:
    """The logits of an evaluation, by split. They are checked again: a damaged model's would be non-finite."""
    import numpy as np

    from srnet.core.arrays import finite_logits  # not at the top: `srnet store ls` needs no numpy

    with np.load(store.path(key) / "logits.npz", allow_pickle=False) as file:
        return {name: finite_logits(file[name], f"the model of evaluation {key}") for name in file.files}


def bias_splits(store: Store, key: str) -> list[str]:
    """The splits on which a bias model has predictions: scores of the user's own may lack OOD sets."""
    return [path.stem for path in store.path(key).glob("*.npz")]


def bias_predictions(store: Store, key: str, split: str) -> BiasPredictions:
    """The predictions of a bias model on a split."""
    import numpy as np

    if split not in bias_splits(store, key):
        raise UserError(f"bias model {key} has no predictions for '{split}'", "give scores for this split too")

    from srnet.bias.model import BiasPredictions  # not at the top: it imports scikit-learn

    with np.load(store.path(key) / f"{split}.npz", allow_pickle=False) as file:
        return BiasPredictions(tuple(file["ids"].tolist()), file["log_probs"])
