"""The CPU and a GPU select the same scores by different means, and set the same thresholds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from srnet.masks.modules import ScoreMask, mean_sigmoid
from srnet.masks.selection import Selection, brought_to, count_each, in_stacks, kth_each, select
from tests.devices import counted_device, second_device

FEW = st.sampled_from([-1.0, 0.0, 0.01, 0.02, 0.3])
MANY = st.floats(-1e3, 1e3, width=32)


@st.composite
def matrices(draw: st.DrawFn) -> tuple[list[torch.Tensor], list[torch.Tensor], list[int]]:
    """Some matrices of scores, with and without ties, their magnitudes, and how many of each are pruned."""
    scores, magnitudes, pruned = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        size = draw(st.integers(1, 24))
        values = draw(st.sampled_from([FEW, MANY]))
        scores.append(torch.tensor(draw(st.lists(values, min_size=size, max_size=size))))
        magnitudes.append(torch.tensor(draw(st.lists(FEW, min_size=size, max_size=size))).abs())
        pruned.append(draw(st.integers(0, size)))
    return scores, magnitudes, pruned


def expected(scores: torch.Tensor, magnitude: torch.Tensor | None, pruned: int) -> list[bool]:
    """By score, then magnitude, then position."""
    ties = magnitude if magnitude is not None else torch.zeros(len(scores))
    order = sorted(range(len(scores)), key=lambda i: (scores[i].item(), ties[i].item(), i))
    return [index not in order[:pruned] for index in range(len(scores))]


@settings(max_examples=60)
@given(matrices(), st.booleans())
def test_both_devices_select_the_same(
    case: tuple[list[torch.Tensor], list[torch.Tensor], list[int]], with_ties: bool
) -> None:
    scores, magnitudes, pruned = case
    here = select(scores, pruned, magnitudes.__getitem__ if with_ties else None)
    with second_device() as device:
        moved = [each.to(device) for each in magnitudes]
        there = select([each.to(device) for each in scores], pruned, moved.__getitem__ if with_ties else None)
        keeps = [each.keep.cpu() for each in there]
        edges = [None if each.edges is None else each.edges.cpu() for each in there]
    for number, each in enumerate(here):
        wanted = expected(scores[number], magnitudes[number] if with_ties else None, pruned[number])
        assert each.keep.tolist() == keeps[number].tolist() == wanted
        assert (each.edges is None) == (edges[number] is None)
        if each.edges is not None:
            keep = torch.tensor(wanted)
            assert each.edges.tolist() == edges[number].tolist()  # type: ignore[union-attr]
            assert each.edges.tolist() == [scores[number][~keep].max(), scores[number][keep].min()]


@settings(max_examples=40)
@given(matrices(), st.sampled_from(["middle", "kth"]))
def test_both_devices_set_the_same_thresholds(
    case: tuple[list[torch.Tensor], list[torch.Tensor], list[int]], cut: str
) -> None:
    scores, magnitudes, pruned = case

    def thresholds(device: torch.device) -> tuple[list[float], list[torch.Tensor], list[torch.Tensor]]:
        masks = {str(n): ScoreMask(each.clone().to(device), 0.5) for n, each in enumerate(scores)}
        ties = [each.to(device) for each in magnitudes]
        selected = select([mask.scores for mask in masks.values()], pruned, ties.__getitem__)
        keep = [each.keep.clone() for each in selected]
        ScoreMask.set_cuts(masks, dict(zip(masks, selected, strict=True)), cut)  # type: ignore[arg-type]
        for mask, kept in zip(masks.values(), keep, strict=True):
            assert torch.equal(mask.binary().cpu(), kept.cpu())
        return (
            [float(mask.phi) for mask in masks.values()],
            [mask.scores.detach().cpu() for mask in masks.values()],
            [mask(torch.ones_like(mask.scores)).detach().cpu() for mask in masks.values()],
        )

    here = thresholds(torch.device("cpu"))
    with second_device() as device:
        there = thresholds(device)
    assert here[0] == there[0]
    for own, other in zip(here[1] + here[2], there[1] + there[2], strict=True):
        assert torch.equal(own, other)


def test_edges_by_hand() -> None:
    (found,) = select([torch.tensor([[4.0, 1.0], [3.0, 2.0]])], [2])
    assert found.edges is not None
    assert (found.edges.tolist(), found.keep.tolist()) == ([2.0, 3.0], [[True, False], [True, False]])
    tied, nothing, everything = select([torch.tensor([1.0, 1.0, 0.0])] * 3, [2, 3, 0])
    assert (tied.edges, nothing.edges, everything.edges) == (None, None, None)
    assert tied.keep.tolist() == [False, True, False]
    assert (nothing.keep.any(), everything.keep.all()) == (False, True)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64])
def test_other_types_of_numbers(dtype: torch.dtype) -> None:
    scores = torch.tensor([5, 3, 8, 1, 3, 7]).to(dtype)
    for pruned in range(7):
        wanted = expected(scores, None, pruned)
        assert select([scores], [pruned])[0].keep.tolist() == wanted
        with second_device() as device:
            assert select([scores.to(device)], [pruned])[0].keep.cpu().tolist() == wanted


def test_magnitudes_are_read_only_where_scores_are_tied() -> None:
    asked: list[int] = []

    def ties(number: int) -> torch.Tensor:
        asked.append(number)
        return torch.zeros(4)

    select([torch.arange(4.0), torch.ones(4), torch.arange(4.0)], [2, 2, 2], ties)
    assert asked == [1]


@pytest.mark.parametrize("matrices", [1, 40])
def test_a_selection_waits_once_whatever_the_number_of_matrices(matrices: int) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = [torch.randint(0, 9, (30,), generator=generator).float() for _ in range(matrices)]
    with counted_device() as (device, counts):
        there = [each.to(device, non_blocking=True) for each in scores]
        select(there, [15] * matrices, lambda number: there[number])
        assert (counts.waits.total(), counts.uploads.total()) == (1, 0)
        kth_each(there, [number % 30 for number in range(matrices)])
        assert (counts.waits.total(), counts.uploads.total()) == (1, 0)


# --- numbers by rank -----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=6), st.randoms())
def test_both_devices_find_the_same_ranks(shapes: list[tuple[int, int]], random: object) -> None:
    values = [torch.randn(4 * size, generator=torch.Generator().manual_seed(n)) for n, (size, _) in enumerate(shapes)]
    ranks = [rank for _, rank in shapes]
    wanted = [each.sort().values[rank].item() for each, rank in zip(values, ranks, strict=True)]
    assert [each.item() for each in kth_each(values, ranks)] == wanted
    with second_device() as device:
        assert [each.item() for each in kth_each([each.to(device) for each in values], ranks)] == wanted


def test_what_has_one_length_is_one_matrix_on_a_gpu_only() -> None:
    values = [torch.arange(3.0), torch.arange(5.0), torch.arange(3.0) + 3, torch.zeros(70_000), torch.zeros(70_000)]
    assert [(numbers, rows.shape[0]) for numbers, rows in in_stacks(values)] == [([n], 1) for n in range(5)]
    with second_device() as device:
        found = {tuple(numbers): rows.cpu() for numbers, rows in in_stacks([each.to(device) for each in values])}
    assert found.keys() == {(0, 2), (1,), (3,), (4,)}, "long ones are not copied"
    assert found[0, 2].tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_counts_and_copies() -> None:
    decisions = [torch.tensor([[True, False], [True, True]]), torch.tensor([False])]
    assert count_each(decisions).tolist() == [3, 0]
    with counted_device() as (device, counts):
        there = brought_to(device, decisions)
        assert (counts.uploads.total(), [each.shape for each in there]) == (0, [(2, 2), (1,)])
        assert all(each.device == device for each in there)
        counted = count_each(iter(there))
        assert (counts.waits.total(), counted.tolist()) == (0, [3, 0])
        back = brought_to(torch.device("cpu"), there)
        assert counts.waits.total() == 2
    assert [each.tolist() for each in back] == [each.tolist() for each in decisions]
    assert brought_to(torch.device("cpu"), decisions)[0] is decisions[0]


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_the_penalty_of_a_gpu_is_that_of_the_cpu(shift: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srnet.masks.modules.AT_ONCE", 25)  # parts of two, one and one matrices
    scores = [torch.randn(n, 3, generator=torch.Generator().manual_seed(n)) for n in (4, 2, 7, 9)]
    here = [each.clone().requires_grad_() for each in scores]
    (2.0 * mean_sigmoid(here, shift)).backward()  # type: ignore[no-untyped-call]
    by_hand = sum(1 / (1 + math.exp(-(x + shift))) for each in scores for x in [each.flatten()[0].item()]) / 4
    assert by_hand == pytest.approx(mean_sigmoid([each.flatten()[:1] for each in scores], shift).item(), rel=1e-6)
    with second_device() as device:
        there = [each.to(device).requires_grad_() for each in scores]
        total = 2.0 * mean_sigmoid(there, shift)
        total.backward()  # type: ignore[no-untyped-call]
        assert total.item() == pytest.approx(2.0 * mean_sigmoid(scores, shift).item(), rel=1e-6)
        found = [each.grad.cpu() for each in there]  # type: ignore[union-attr]
    for own, other in zip(here, found, strict=True):
        torch.testing.assert_close(other, own.grad, rtol=1e-6, atol=1e-9)


def test_a_selection_without_edges_has_what_was_chosen() -> None:
    chosen = torch.tensor([True, False])
    assert Selection(torch.zeros(2), None, chosen).keep is chosen
