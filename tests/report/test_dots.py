"""The picture of all models side by side."""

from __future__ import annotations

import io

import pytest
from altered import altered
from matplotlib.figure import Figure
from matplotlib.image import imread

from srnet.report import dots
from srnet.report.dots import draw_models
from srnet.report.results import Results


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []

    def keep(figure: Figure, format: str, **options: object) -> bytes:
        figures.append(figure)
        return b""

    monkeypatch.setattr(dots, "saved", keep)
    return figures


def test_every_model_has_a_row_and_a_dot_for_each_split(results: Results, drawn: list[Figure]) -> None:
    theory = {"theory: ideal": {split: 90.0 + place for place, split in enumerate(results.splits)}}
    draw_models(altered(results, theory=theory))
    (axis,) = drawn[0].axes
    names = [label.get_text().replace("\n", " ") for label in axis.get_yticklabels()]
    assert names == [*(summary.name for summary in results.summaries), "theory: ideal"]
    lines = [each[0] for each in axis.containers]
    found = sorted((float(line.get_ydata()[0]), round(float(line.get_xdata()[0]), 6)) for line in lines)
    expected = [
        (float(place), round(score.mean, 6))
        for place, summary in enumerate(results.summaries)
        for score in summary.scores.values()
    ]
    assert found == sorted(
        expected + [(float(len(results.summaries)), each) for each in theory["theory: ideal"].values()]
    )


def test_a_thousand_models_fit_into_a_picture(results: Results) -> None:
    many = altered(results, summaries=results.summaries[:1] * 1000)
    height, *_ = imread(io.BytesIO(draw_models(many))).shape
    assert height <= 12_001
