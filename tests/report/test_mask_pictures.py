"""What two masks share, and where a mask keeps its weights, counted by hand."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from series import Series, recipe_of
from small import read_no_backbone

from srnet.experiment.store import Store
from srnet.masks.mask import Mask
from srnet.models.subnetwork import Subnetwork
from srnet.recipes.paradigms import Profile, Search, full, of_raw
from srnet.report.masks import MaskPictures, _overlap, _pack, mask_pictures
from srnet.report.pictures import BLOCKS, _blocks, draw_mosaic, short_name
from srnet.report.results import Results
from srnet.tasks.synthetic import SyntheticTask

LONG = "bert.encoder.layer.{}.attention.self.query.weight"


def mask(**rows: str) -> Mask:
    """Matrices from their rows: "1010 0011" has two rows of four weights."""
    return Mask({name: torch.tensor([[c == "1" for c in row] for row in text.split()]) for name, text in rows.items()})


# --- two masks -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "shared", "chance"),
    [
        ({"a": "1010 0011", "b": "1"}, {"a": "1010 0011", "b": "1"}, 1.0, (4 * 4 / 8 + 1) / 5),
        ({"a": "1100", "b": "10"}, {"a": "0011", "b": "01"}, 0.0, (2 * 2 / 4 + 1 / 2) / 3),
        # half of the kept weights in common; each of the two is met with a chance of 2 in 8
        ({"a": "1100 0000"}, {"a": "1010 0000"}, 1 / 2, (2 * 2 / 8) / 2),
        # unequal matrices: a keeps 4 of 4 against 2, so 2 are met; b 2 of 8 against 4, so 1; over sqrt(6 * 6)
        ({"a": "11 11", "b": "11000000"}, {"a": "10 01", "b": "00001111"}, 2 / 6, (2 + 1) / 6),
        # unequal counts: one keeps 1, the other 4: the one is among the four; over sqrt(1 * 4)
        ({"a": "10000000"}, {"a": "11110000"}, 1 / 2, (1 * 4 / 8) / 2),
        ({"a": "000"}, {"a": "111"}, 0.0, 0.0),  # nothing is kept
    ],
)
def test_what_two_masks_share_by_hand(
    first: dict[str, str], second: dict[str, str], shared: float, chance: float
) -> None:
    assert _overlap(_pack(mask(**first)), _pack(mask(**second))) == (pytest.approx(shared), pytest.approx(chance))


# --- tables --------------------------------------------------------------------------------------------------------

MASKS = {
    ("one", 0): mask(**{LONG.format(0): "1111 0000", LONG.format(1): "1100"}),
    ("one", 1): mask(**{LONG.format(0): "1111 0000", LONG.format(1): "0011"}),
    ("two", 0): mask(**{LONG.format(0): "0000 1111", LONG.format(1): "1100"}),
    ("two", 1): mask(**{LONG.format(0): "0000 1111", LONG.format(1): "0000"}),
}


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pictures of the masks above, as if they had been found."""
    read_no_backbone(monkeypatch)

    def make(seeds: tuple[int, ...], *series: Series) -> MaskPictures:
        task = SyntheticTask("inference", train_size=10, dev_size=5, ood_size=5)
        recipe = recipe_of(Profile(task, seeds=seeds), *series)
        store = Store(tmp_path / f"store-{len(seeds)}")
        for point in recipe.points:
            if point.is_pruned:
                folder = store.path(point.node.key)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "mask.bits").write_bytes(MASKS[point.label, point.seed].to_bytes())
        return mask_pictures(recipe, store)

    return make


ONE = partial(of_raw, label="one", search=Search("mask", "ce", (0.5,)))
TWO = partial(of_raw, label="two", search=Search("one-shot", sparsities=(0.5,)))
FULL = partial(full, label="full")


def drawn(picture: dict[str, Any]) -> Any:
    """The heat map of a picture."""
    (trace,) = picture["data"]
    return trace


def test_the_table_of_overlaps_by_hand(pictures: Any) -> None:
    (picture,) = pictures((0, 1), FULL, ONE, TWO).overlaps
    assert drawn(picture)["x"] == drawn(picture)["y"] == ["one", "two"]
    assert picture["layout"]["title"]["text"].startswith("50 % sparse: ")
    # one: 4 of 6 stay from seed to seed; two: 4 over sqrt(6 * 4). One against two: 2 of 6 with seed 0, none with seed 1
    between = round(100 * (2 / 6 + 0) / 2, 2)
    assert drawn(picture)["z"] == [[round(100 * 4 / 6, 2), between], [between, round(100 * 4 / 24**0.5, 2)]]


def test_one_seed_leaves_nothing_to_compare_a_line_with(pictures: Any) -> None:
    (both,), (alone,) = pictures((0,), ONE, TWO).overlaps, pictures((0,), ONE).overlaps
    third = round(100 * 2 / 6, 2)
    assert drawn(both)["z"] == [[None, third], [third, None]]
    assert drawn(both)["text"][0] == ["", "33.3"]
    assert drawn(alone)["z"] == [[None]]
    for picture in (both, alone):  # 4 * 4 / 8 = 2 and 2 * 2 / 4 = 1, over 6
        assert "chance 50.0 %" in picture["layout"]["title"]["text"]


def test_the_table_of_matrices_by_hand(pictures: Any) -> None:
    (picture,) = pictures((0, 1), ONE, TWO).matrices
    assert drawn(picture)["y"] == ["0 attention.self.query", "1 attention.self.query"]
    assert drawn(picture)["x"] == ["one", "two"]
    assert (drawn(picture)["zmin"], drawn(picture)["zmax"]) == (0, 100), "colours of several pictures can be compared"
    assert drawn(picture)["z"] == [[50.0, 50.0], [50.0, 75.0]], "two: half and all of the second matrix"


def test_a_matrix_that_one_line_does_not_mask_has_an_empty_cell(pictures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = mask(**{LONG.format(0): "0000 1111"})
    monkeypatch.setitem(MASKS, ("two", 0), fewer)
    (picture,) = pictures((0,), ONE, TWO).matrices
    assert drawn(picture)["z"] == [[50.0, 50.0], [50.0, None]]


def test_a_figure_without_masks_has_no_pictures(pictures: Any) -> None:
    found = pictures((0,), FULL)
    assert (found.overlaps, found.matrices, found.mosaic, found.mosaic_of) == ([], [], None, "")


def test_the_pictures_of_a_run_are_those_of_its_masks(results: Results, store: Store) -> None:
    found = mask_pictures(results.recipe, store)
    sparsities = (0.35, 0.5, 0.9)
    assert len(found.overlaps) == len(found.matrices) == len(sparsities)
    for picture, sparsity in zip(found.matrices, sparsities, strict=True):
        (summary,) = [s for s in results.summaries if s.point.place.sparsity == sparsity]
        stored = [Subnetwork.load(store.path(model.key)).mask for model in summary.models]
        assert stored[0] is not None
        for name, row in zip(stored[0], drawn(picture)["z"], strict=True):
            shares = [each.sparsities()[name] for each in stored if each is not None]
            assert row == [pytest.approx(100 * sum(shares) / 2)]


# --- where weights are kept ----------------------------------------------------------------------------------------


def test_blocks_by_hand() -> None:
    matrix = mask(a="1100 1111 0001 0000")["a"]
    assert _blocks(matrix, 2).tolist() == [[1.0, 0.5], [0.0, 0.25]]
    assert _blocks(matrix, 1).tolist() == [[7 / 16]]
    assert _blocks(matrix).tolist() == matrix.float().tolist(), "a small matrix is drawn weight by weight"
    large = _blocks(torch.ones(100, 70, dtype=torch.bool))
    assert large.shape == (BLOCKS, BLOCKS)
    assert (large == 1.0).all()


def test_short_names() -> None:
    assert short_name("bert.encoder.layer.0.attention.self.query.weight") == "0 attention.self.query"
    assert short_name("bert.pooler.dense.weight") == "bert.pooler.dense"


def test_the_mosaic_is_of_one_trained_mask(pictures: Any) -> None:
    found = pictures((0, 1), TWO, ONE)
    assert found.mosaic_of == "one, 50 %, seed 0", "magnitudes have no structure of their own to show"
    assert found.mosaic == draw_mosaic(MASKS["one", 0]), "the same mask gives the same bytes"
    assert found.mosaic.startswith(b"\x89PNG")
    assert draw_mosaic(MASKS["one", 1]) != found.mosaic
    assert pictures((0,), TWO).mosaic is None
