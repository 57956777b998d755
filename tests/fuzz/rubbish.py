"""Values that no program expects, and ways to damage a file."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

TEXTS = (
    "", " ", "-1", "0", "1", "2", "-0.0", "0.5", "nan", "-inf", "inf", "1e999", "1e-999", "9" * 400, "0x10", "1_000",
    "../../../evil", "/", ".", "..", "~", "/dev/null", "/proc/self/mem", "a/b", "a\\b", "C:evil", "file",
    "allow_pickle", "train", "dev", "con", "[/x]", "[bold]", "$x_{$", "\\frac{", "%s%n", "{0}", "{}", "[]", "null",
    "true", "no", "~x", "a,b", ",", ",,", "=", "a=", "=b", "a=b", "a=b=c", "é", "日本", "🤯", "\u202e", "\ufeff",
    "\x1b[31m", "\t", "a\nb", "x" * 300, "x" * 70_000, "--help", "-q", "2024-13-01", "1:2", "&a", "*a",
    "!!python/object:os.system", "<b>", "'", '"', "; rm -rf x", "$(id)", "inference", "mask", "ce", "poe", "0.5,0.7",
    "train=10", "dev=-1", "hub:x", "https://x/y.csv",
)  # fmt: skip
CHOICES = (
    "imp", "mask", "wanda", "one-shot", "smp-s", "l0", "movement", "ce", "poe", "reweight", "confreg", "jtt",
    "balanced", "poe-permuted",
    "a", "b", "c", "full", "overlap", "claim", "unknown", "f1", "accuracy", "matthews", "train", "dev", "sparsity",
    "train.csv", "dev.csv", "ood.csv", "text_a", "text_b", "label", "srnet-tiny", "snli", "squad", "id+ood", "drop",
)  # fmt: skip
"""Words that mean something, if perhaps not there."""
NAMES = (
    "../../../evil", "a/b", "a\\b", "/evil", "..", ".", ".hidden", "", " ", "a ", "a.", "-x", "C:evil", "a\nb", "a\0b",
    "file", "allow_pickle", "FILE", "con", "NUL.txt", "\u202e", "\ufeff", "\ud800", "x" * 101, "日" * 40, "<b>", "a*b",
    "\n", "[/x]" * 30,
)  # fmt: skip
"""Names that no file can have on every system."""
NUMBERS = (
    0, 1, -1, 2, 0.5, -0.5, 1e-9, 1e308, -1e308, float("nan"), float("inf"), 2**31, 2**63, 2**64, 10**400, 1.5, True,
)  # fmt: skip


def value(rng: random.Random, depth: int = 0) -> Any:
    """Anything that YAML or JSON can hold."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return None
    if kind in (1, 2):
        return rng.choice(NUMBERS)
    if kind in (3, 4):
        return rng.choice(TEXTS)
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXTS): value(rng, depth + 1) for _ in range(rng.randrange(4))}


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value in a tree of dicts and lists."""
    children = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, child in children for place in places(child, (*path, key)))]


def changed(rng: random.Random, tree: Any) -> Any:
    """With a value exchanged, removed, renamed, doubled or added somewhere."""
    tree = json.loads(json.dumps(tree))
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        path = rng.choice(places(tree)[1:] or [()])
        if not path:
            return value(rng)
        parent = tree
        for key in path[:-1]:
            parent = parent[key]
        _change(rng, parent, path[-1])
    return tree


def _change(rng: random.Random, parent: Any, key: Any) -> None:
    kind = rng.randrange(12)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        parent[rng.choice(TEXTS)] = parent.pop(key)
    elif kind == 2 and isinstance(parent, dict):
        parent[rng.choice(NAMES)] = value(rng)
    elif kind == 3:
        parent[key] = [parent[key]] * rng.choice([1, 2, 1000])
    elif kind == 4:
        parent[key] = value(rng)
    else:
        parent[key] = _alike(rng, parent[key])


def _alike(rng: random.Random, old: Any) -> Any:
    """Another value of the same type, so that it gets past the check of types."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)):
        return rng.choice(NUMBERS)
    if isinstance(old, str):
        return rng.choice(rng.choice([TEXTS, CHOICES]))
    return value(rng)


# --- bytes ---------------------------------------------------------------------------------------------------------


def damage(rng: random.Random, data: bytes) -> bytes:
    """A file as a bad disk or a bad person leaves it."""
    return rng.choice([_flip, _flip, _cut, _cut, _insert, _repeat, _noise, _nothing])(rng, data)


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 4, 64])):
        if changed:
            # headers decide what the rest means, so they are hit more often
            where = rng.randrange(min(len(changed), rng.choice([16, 128, len(changed)])))
            changed[where] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _insert(rng: random.Random, data: bytes) -> bytes:
    where = rng.randrange(len(data) + 1)
    return data[:where] + rng.randbytes(rng.choice([1, 8, 100])) + data[where:]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    return data * rng.choice([2, 3, 20])


def _noise(rng: random.Random, data: bytes) -> bytes:
    return rng.randbytes(rng.choice([1, 10, 1000]))


def _nothing(rng: random.Random, data: bytes) -> bytes:
    return b""


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))
