"""Dev rows that are split off from the training data, where a task has no dev file."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from srnet.core.errors import UserError
from srnet.tasks.layout import SplitFile
from srnet.tasks.leaks import TextKeys
from srnet.tasks.splits import PAIR, Split

MOST_ROWS = 2000
"""Dev rows are scored at every checkpoint. The standard error of an accuracy is then at most 1.1 points."""
FEWEST_ROWS = 10
LARGEST_GROUP = 0.25
"""The share of the dev rows that rows with a common text may have; a larger group would decide the score."""


def split_off(train: SplitFile, share: float, strata: np.ndarray) -> tuple[SplitFile, SplitFile]:
    """Train and dev, always the same ones. `strata`: a number for each row; their shares are kept.

    Rows with a text in common stay together: a model that remembers a premise, or a claim, would otherwise know a part
    of its dev rows. Where that would make too large groups, such as with a hypothesis that half of the premises have,
    rows with the same first text stay together, else equal rows. Rows of a pair always stay together.
    """
    split, size = train.split, min(MOST_ROWS, round(share * len(train.split)))
    if len(split) < FEWEST_ROWS or not size:
        raise UserError(f"{train.path} has {len(split):,} rows, too few to split dev off", "give --dev FILE")
    what, held = rows_apart(split, train.keys, strata, size)
    if not len(held):
        raise UserError(f"{train.path}: no rows can be split off as dev, because all are alike", "give --dev FILE")
    kept = np.setdiff1d(np.arange(len(split)), held)
    dev = replace(split.take(held), name="dev", ids=tuple(f"dev-{n}" for n in range(len(held))))
    origin = (
        f"{len(held):,} of the {len(split):,} rows of the training file, which are not trained on; {what} stay together"
    )
    return replace(train, split=split.take(kept)), SplitFile(train.path, dev, origin=origin)


def rows_apart(split: Split, keys: TextKeys, strata: np.ndarray, size: int) -> tuple[str, np.ndarray]:
    """At most `size` rows of `split` that share no text with the others, and what stays together, in words."""
    what, groups = _grouping(keys, _pairs(split), size)
    return what, _held_out(groups, strata, size)


def _pairs(split: Split) -> np.ndarray | None:
    """A number for the pair of each row, another one for each row without a pair; None if there are no pairs."""
    if PAIR not in split.columns:
        return None
    names = {cell: number for number, cell in enumerate(split.columns[PAIR]) if cell.strip()}
    rows = np.array([names.get(cell, row) for row, cell in enumerate(split.columns[PAIR])])
    return -1 - rows  # no number is that of a group


def _grouping(keys: TextKeys, pairs: np.ndarray | None, size: int) -> tuple[str, np.ndarray]:
    """What stays together, in words, and the number of each row's group."""
    known = [(what, _numbered(labels)) for what, labels in _groupings(keys)]
    if pairs is not None:
        known = [(f"{what}, and pairs,", _numbered(_connected(groups, pairs))) for what, groups in known]
    small = [each for each in known if np.bincount(each[1]).max() <= LARGEST_GROUP * size]
    return (small or known[-1:])[0]


def _groupings(keys: TextKeys) -> Iterator[tuple[str, np.ndarray]]:
    if len(np.unique(keys.second)) > 1:  # else all have the same second text, or none
        yield "rows that share a text", _connected(keys.first, keys.second)
        yield "rows with the same first text", keys.first
    yield "equal rows", keys.rows


def _numbered(labels: np.ndarray) -> np.ndarray:
    """Groups by the places of their first rows: the keys of texts differ between processes."""
    _, first, groups = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[groups])


def _connected(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The connected components of a graph in which the values of both arrays are nodes and rows are edges."""
    from scipy.sparse import coo_array  # not at the top: it is slow to import
    from scipy.sparse.csgraph import connected_components

    names, ends = np.unique(np.concatenate([first, second]), return_inverse=True)
    one, other = np.split(ends, 2)
    graph = coo_array((np.ones(len(one), bool), (one, other)), shape=(len(names), len(names)))
    return np.asarray(connected_components(graph, directed=False)[1][one])


def _held_out(groups: np.ndarray, strata: np.ndarray, size: int) -> np.ndarray:
    """The rows of randomly ordered groups, as long as they fit into the share of each stratum."""
    members = defaultdict(list)
    for row, group in enumerate(groups.tolist()):
        members[group].append(row)
    counts = Counter(strata.tolist())
    # one row of each stratum, at least, is trained on
    room = {each: min(max(1, size * count // len(strata)), count - 1) for each, count in counts.items()}
    held: list[int] = []
    for group in np.random.default_rng(0).permutation(len(members)).tolist():
        wanted = Counter(strata[members[group]].tolist())
        if all(room[each] >= count for each, count in wanted.items()):
            room = {each: left - wanted[each] for each, left in room.items()}
            held += members[group]
        if not any(room.values()):
            break
    return np.sort(np.array(held, np.int64))


def strata_of(split: Split, has_classes: bool) -> np.ndarray:
    """Classes are strata; scores are cut into five of equal size."""
    if has_classes:
        return split.labels
    ranks = np.argsort(np.argsort(split.labels, kind="stable"), kind="stable")
    return np.asarray(5 * ranks // len(ranks))
