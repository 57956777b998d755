"""The verdict from predictions alone: against values by hand, in every form of a table, and with every mistake."""

from __future__ import annotations

import csv
import json
import random
import re
from collections.abc import Callable
from dataclasses import fields
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas
import pytest
from commands import run
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import command_refused, refused

import srnet

Row = dict[str, Any]
COLUMNS = ("system", "seed", "split", "id", "label", "prediction", "group")
OTHER = {"yes": "no", "no": "yes"}


def rows_of(
    shares: dict[str, dict[str, int]],
    seeds: int = 3,
    size: int = 10,
    label: Callable[[int], str] = lambda n: "ny"[n % 2],
) -> list[Row]:
    """Systems that answer so many rows of each split correctly; seeds differ in which."""
    rows = []
    for system, by_split in shares.items():
        for seed in range(seeds):
            for split, right in by_split.items():
                for n in range(size):
                    gold = {"n": "no", "y": "yes"}[label(n)]
                    answer = gold if (n + seed) % size < right else OTHER[gold]
                    cells = (system, seed, split, f"{split}-{n}", gold, answer, f"case {n % 2}")
                    rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


CLEAR = rows_of({"full": {"dev": 90, "hard": 40}, "mask": {"dev": 89, "hard": 80}}, size=100)
"""A system that certainly keeps the ID score and gains."""


def figures(found: srnet.Verdicts) -> dict[str, list[Any]]:
    return {name: [getattr(each, f.name) for f in fields(each)] for name, each in found.verdicts.items()}


def written(folder: Path, rows: list[Row], name: str = "p.csv") -> str:
    with (folder / name).open("w", newline="") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(column for row in rows for column in row)))
        table.writeheader()
        table.writerows(rows)
    return str(folder / name)


# --- what is computed ------------------------------------------------------------------------------------------------


def test_scores_and_differences_by_hand() -> None:
    rows = rows_of({"full": {"dev": 8, "hard": 4}, "mask": {"dev": 6, "hard": 9}})
    found = srnet.verdict(rows)
    assert (found.reference, found.task.dev.name, list(found.task.ood)) == ("full", "dev", ["hard"])
    verdict = found.verdicts["mask"]
    assert verdict.id_share == pytest.approx(6 / 8)
    assert verdict.full_id == pytest.approx(80.0)
    assert verdict.id_kept.difference == pytest.approx(60 - 0.95 * 80)
    assert verdict.gains["hard"].difference == pytest.approx(50.0)
    whole = {(each.system, each.split): each for each in found.parts if not each.case}
    assert whole["mask", "hard"].score.mean == pytest.approx(90.0)
    assert whole["full", "hard"].difference is None
    # of rows 0 to 9 the first nine and the first four are right: five of ten answers differ
    assert whole["mask", "hard"].equal == pytest.approx(50.0)
    cases = {each.case for each in found.parts}
    assert cases == {"", "label no", "label yes", "case 0", "case 1"}


def test_a_clear_case_is_certain_and_its_opposite_refuted() -> None:
    assert srnet.verdict(CLEAR).verdicts["mask"].answer == "yes"
    turned = srnet.verdict(CLEAR, reference="mask").verdicts["full"]
    assert turned.answer == "no"
    assert "OOD hard -40.0" in turned.explained.split(";")[0], "the part that decides is named first"
    assert srnet.verdict(CLEAR, keep_id=1.0).verdicts["mask"].answer != "yes"


def test_verdicts_are_corrected_for_the_number_of_systems() -> None:
    alone = srnet.verdict(CLEAR).verdicts["mask"].p_value
    copies = [{**row, "system": f"copy {n}"} for n in range(4) for row in CLEAR if row["system"] == "mask"]
    many = srnet.verdict(CLEAR + copies).verdicts
    assert min(each.p_value for each in many.values()) == pytest.approx(5 * alone)


def test_groups_and_pairs_are_reported_and_change_no_verdict() -> None:
    """Rows n and n + 1 are a pair, for even n: of 100 rows of seed 0 the first 40 and the first 80 are right."""
    paired = [{**row, "pair": int(row["id"].split("-")[1]) // 2} for row in CLEAR]
    found, bare = srnet.verdict(paired), srnet.verdict(CLEAR)
    assert figures(found) == figures(bare)
    hard = {row.name: row.figures for row in found.groups if row.split == "OOD hard"}
    full, mask = hard["full"], hard["mask"]
    assert (full.worst_difference, full.pairs_difference) == (None, None)
    assert mask.worst
    assert mask.worst.accuracy.difference == pytest.approx(80.0)
    # seed 1 is right on the rows 99 and 0 to 78, so that it breaks two pairs: 40, 39 and 40 of 50
    assert mask.pairs
    assert mask.pairs.difference == pytest.approx(100 * (40 + 39 + 40) / 150)
    assert mask.pairs_difference
    assert mask.pairs_difference.difference == pytest.approx(40.0)
    assert [row.figures.pairs for row in bare.groups] == [None] * 4
    assert found.to_json()["groups"][3]["figures"]["worst_difference"]["value"] == pytest.approx(40.0)
    assert [each.title for each in found.tables][1] == "Worst groups and pairs"
    few = srnet.verdict(rows_of({"full": {"dev": 8, "hard": 4}, "mask": {"dev": 6, "hard": 9}}))
    assert few.groups == (), "five rows in each group"


def test_a_row_has_one_pair() -> None:
    paired = [{**row, "pair": row["system"]} for row in CLEAR]
    with refused("dev-0", "pairs"):
        srnet.verdict(paired)


def test_further_test_sets_are_scored_and_not_judged() -> None:
    more = [{**row, "split": "test"} for row in CLEAR if row["split"] == "dev"]
    found = srnet.verdict(CLEAR + more, ood=("hard",))
    assert list(found.verdicts["mask"].gains) == ["hard"]
    assert {each.split for each in found.parts} == {"dev", "test", "hard"}
    assert list(srnet.verdict(CLEAR + more).verdicts["mask"].gains) == ["hard", "test"]


def test_labels_of_ood_sets_choose_nothing() -> None:
    """With all OOD labels swapped, the reference, the ID set and the condition on ID are the same."""
    swapped = [{**row, "label": OTHER[row["label"]]} if row["split"] == "hard" else row for row in CLEAR]
    one, other = srnet.verdict(CLEAR), srnet.verdict(swapped)
    assert (one.reference, one.task.dev.name) == (other.reference, other.task.dev.name)
    assert one.verdicts["mask"].id_kept == other.verdicts["mask"].id_kept
    assert one.verdicts["mask"].gains["hard"].difference == -other.verdicts["mask"].gains["hard"].difference


def test_numbers_are_correlated() -> None:
    rng = random.Random(0)
    golds = {split: [rng.gauss(0, 1) for _ in range(50)] for split in ("dev", "hard")}
    rows = [
        {"system": s, "seed": seed, "split": split, "id": n, "label": g, "prediction": g + rng.gauss(0, noise)}
        for s, noise in (("full", 1.0), ("mask", 0.2))
        for seed in range(3)
        for split in golds
        for n, g in enumerate(golds[split])
    ]
    found = srnet.verdict(rows, metric="pearson")
    assert found.verdicts["mask"].answer == "yes"
    assert {each.case for each in found.parts} == {""}
    with refused("prediction", "pearson"):
        srnet.verdict([{**row, "prediction": "high"} for row in rows], metric="pearson")
    with refused("span_f1", "cell"):
        srnet.verdict(rows, metric="span_f1")


# --- forms of a table ------------------------------------------------------------------------------------------------


def as_columns(rows: list[Row]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_every_form_of_a_table_gives_the_same(tmp_path: Path) -> None:
    path, frame = written(tmp_path, CLEAR), pandas.DataFrame(CLEAR)
    frame.to_csv(tmp_path / "p.tsv", sep="\t", index=False)
    frame.to_parquet(tmp_path / "p.parquet")
    frame.to_json(tmp_path / "p.jsonl", orient="records", lines=True)
    files = [[tmp_path / name] for name in ("p.csv", "p.tsv", "p.parquet", "p.jsonl")]
    parts = [written(tmp_path, [r for r in CLEAR if r["system"] == name], f"{name}.csv") for name in ("full", "mask")]
    expected = figures(srnet.verdict(CLEAR))
    for tables in (*files, [path], [frame], [as_columns(CLEAR)], parts):
        assert figures(srnet.verdict(*tables)) == expected


def test_probabilities_stand_for_predictions() -> None:
    sure = {"no": {"p:no": 0.7, "p:yes": 0.3}, "yes": {"p:no": 0.2, "p:yes": 0.8}}
    rows = [{**row, **sure[row["prediction"]]} for row in CLEAR]
    alone = [{name: cell for name, cell in row.items() if name != "prediction"} for row in rows]
    assert figures(srnet.verdict(alone)) == figures(srnet.verdict(rows)) == figures(srnet.verdict(CLEAR))


def test_the_order_of_labels_is_that_of_their_columns() -> None:
    """positive_f1 is that of the second label."""
    by_name = srnet.verdict(CLEAR, metric="positive_f1")
    assert by_name.task.labels == ("no", "yes")
    given = [{**row, "p:yes": int(row["prediction"] == "yes"), "p:no": int(row["prediction"] == "no")} for row in CLEAR]
    assert srnet.verdict(given, metric="positive_f1").task.labels == ("yes", "no")


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_order_and_names_do_not_matter(data: st.DataObject) -> None:
    """Rows in any order, labels under any names, seeds under any numbers: the same scores and conditions."""
    rows = rows_of({"full": {"dev": 7, "hard": 3}, "b": {"dev": 6, "hard": 8}, "c": {"dev": 2, "hard": 3}})
    shuffled = list(rows)
    random.Random(data.draw(st.integers())).shuffle(shuffled)
    texts = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=5)
    names = dict(zip(("no", "yes"), data.draw(st.lists(texts, min_size=2, max_size=2, unique=True)), strict=True))
    other = [{**row, "label": names[row["label"]], "prediction": names[row["prediction"]]} for row in shuffled]
    one, two = srnet.verdict(rows), srnet.verdict(other)
    assert one.verdicts.keys() == two.verdicts.keys()
    for name, verdict in one.verdicts.items():
        assert two.verdicts[name].id_share == pytest.approx(verdict.id_share)
        assert two.verdicts[name].gains["hard"].difference == pytest.approx(verdict.gains["hard"].difference)
        assert two.verdicts[name].gains["hard"].seed_error == pytest.approx(verdict.gains["hard"].seed_error)


# --- mistakes --------------------------------------------------------------------------------------------------------


def without(column: str) -> list[Row]:
    return [{name: cell for name, cell in row.items() if name != column} for row in CLEAR]


def changed(at: int, **cells: Any) -> list[Row]:
    return [{**row, **cells} if n == at else row for n, row in enumerate(CLEAR)]


MISTAKES: dict[str, tuple[Any, dict[str, Any], list[str]]] = {
    "no column": (without("label"), {}, ["line 1", "'label'", "prediction, group", "p:LABEL"]),
    "no prediction": (without("prediction"), {}, ["line 1", "'prediction'"]),
    "an empty cell": (changed(3, seed=""), {}, ["line 4", "'seed'"]),
    "a list": (changed(3, label=["yes"]), {}, ["line 4", "'label'"]),
    "twice": ([*CLEAR, CLEAR[0]], {}, ["line 1201", "'dev-0'", "full, seed 0", "twice"]),
    "a missing row": (CLEAR[1:], {}, ["'dev'", "'dev-0'", "full, seed 0"]),
    "a further row": ([*CLEAR, {**CLEAR[0], "id": "more"}], {}, ["'dev'", "'more'"]),
    "another label": (changed(0, label="yes"), {}, ["'dev'", "'dev-0'", "label"]),
    "another group": (changed(0, group="x"), {}, ["'dev'", "'dev-0'", "group"]),
    "a missing split": ([r for r in CLEAR if (r["system"], r["split"]) != ("mask", "hard")], {}, ["'hard'", "mask"]),
    "other labels": ([{**row, "prediction": 1} for row in CLEAR], {}, ["no prediction is a label", "no, yes", "1"]),
    "logits": ([{**row, "p:no": -3.0, "p:yes": 2.0} for row in CLEAR], {}, ["line 1", "-3, 2", "probabilities"]),
    "no sum of 1": ([{**row, "p:no": 0.9, "p:yes": 0.9} for row in CLEAR], {}, ["0.9, 0.9"]),
    "no number": ([{**row, "p:no": "high", "p:yes": 0.9} for row in CLEAR], {}, ["high"]),
    "many labels": ([{**row, "label": row["id"] * 2, "prediction": n} for n, row in enumerate(CLEAR)], {}, ["label"]),
    "one system": ([row for row in CLEAR if row["system"] == "full"], {}, ["'full' is the only system"]),
    "one split": ([row for row in CLEAR if row["split"] == "dev"], {}, ["'dev' is the only split"]),
    "which reference": ([{**r, "system": r["system"] * 2} for r in CLEAR], {}, ["--reference", "fullfull, maskmask"]),
    "which split": ([{**r, "split": f"set {r['split']}"} for r in CLEAR], {}, ["--id", "set dev, set hard"]),
    "two ID splits": ([{**r, "split": {"dev": "dev", "hard": "id"}[r["split"]]} for r in CLEAR], {}, ["--id"]),
    "no such system": (CLEAR, {"reference": "Full"}, ["'Full'", "full, mask"]),
    "no such split": (CLEAR, {"id": "x"}, ["'x'", "dev, hard"]),
    "no such OOD split": (CLEAR, {"ood": ("x",)}, ["'x'", "dev, hard"]),
    "no such metric": (CLEAR, {"metric": "f2"}, ["'f2'", "accuracy"]),
    "a share above 1": (CLEAR, {"keep_id": 1.5}, ["keep_id", "1.5"]),
    "a seed of its own": ([{**r, "seed": 7} if r["seed"] == 2 and r["system"] == "mask" else r for r in CLEAR], {},
                          ["full has no seed 7", "mask"]),
    "no rows": ([], {}, ["no rows"]),
    "no table": (3, {}, ["int is no data"]),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line_that_names_it(mistake: str) -> None:
    table, options, names = MISTAKES[mistake]
    with refused(*names):
        srnet.verdict(table, **options)


def test_more_than_a_thousand_labels_are_numbers() -> None:
    rows = [
        {"system": s, "seed": 0, "split": split, "id": n, "label": n, "prediction": n}
        for s in ("full", "mask")
        for split in ("dev", "hard")
        for n in range(1001)
    ]
    with refused("1,000", "--metric pearson"):
        srnet.verdict(rows)


def test_files_are_named_with_the_line(tmp_path: Path) -> None:
    path = written(tmp_path, changed(3, label=""))
    with refused(f"{path}, line 5", "'label'"):
        srnet.verdict(path)
    with refused("nowhere.csv"):
        srnet.verdict("nowhere.csv")
    with refused("no predictions"):
        srnet.verdict()


# --- warnings --------------------------------------------------------------------------------------------------------


def test_what_is_doubtful_is_said() -> None:
    assert srnet.verdict(CLEAR).warnings == ()
    few = srnet.verdict(rows_of({"full": {"dev": 9, "hard": 4}, "mask": {"dev": 9, "hard": 8}}, seeds=1))
    assert few.verdicts["mask"].answer == "no verdict"
    assert [each for each in few.warnings if "one seed" in each]
    assert [each for each in few.warnings if each.startswith("hard: 10 rows")]


def test_a_constant_answer_and_a_gain_of_moved_answers_are_doubtful() -> None:
    """On 90 % no, a system that always answers no is more accurate than one that tells both classes apart."""

    def gold(n: int) -> str:
        return "y" if n % 10 == 0 else "n"

    rows = rows_of({"full": {"dev": 90, "hard": 80}, "mask": {"dev": 90, "hard": 80}}, size=100, label=gold)
    constant = [{**r, "prediction": "no"} if (r["system"], r["split"]) == ("mask", "hard") else r for r in rows]
    found = srnet.verdict(constant).warnings
    assert [each for each in found if each.startswith("mask, seed 0: answers 'no' to all rows of hard")]
    assert "mask: better than the reference OOD, but no better than the majority class" in found
    moved = []
    for row in rows:
        n = int(row["id"].split("-")[1])
        if row["split"] == "hard":  # full: eight rows of ten are right in both classes; mask: nearly always no
            right = n % 100 < 80 if row["system"] == "full" else row["label"] == "no" or n < 1
            row = {**row, "prediction": row["label"] if right else OTHER[row["label"]]}
        moved.append(row)
    assert not [each for each in srnet.verdict(moved).warnings if "always" in each]


def test_answers_that_a_split_does_not_know_are_named() -> None:
    """As HANS in the labels of a model with three classes."""
    rows = [{**r, "prediction": "maybe"} if r["split"] == "hard" and r["id"] == "hard-0" else r for r in CLEAR]
    found = srnet.verdict(rows).warnings
    assert "full, seed 0: 1.0 % of its answers on hard are none of the labels there, such as 'maybe'" in found


def test_columns_without_use_are_named() -> None:
    found = srnet.verdict([{**row, "text": "a text"} for row in CLEAR])
    assert found.task.notes == ("not read: text",)


# --- what is shown ---------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)


def test_the_result_in_python() -> None:
    found = srnet.verdict(CLEAR)
    assert "\n" not in repr(found)
    assert "mask: yes: keeps 98.8 % of ID" in str(found)
    frame = found.to_pandas()
    assert set(frame["system"]) == {"full", "mask"}
    (gain,) = frame.query("system == 'mask' and split == 'hard' and case == ''")["difference.value"]
    assert gain == pytest.approx(40.0)
    assert "<table" in found._repr_html_()


def test_files_of_a_verdict_show_names_as_they_are(tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script>|`*"
    rows = [{**row, "system": {"mask": hostile}.get(row["system"], row["system"])} for row in CLEAR]
    srnet.verdict(rows, out=tmp_path / "made")
    page, text = ((tmp_path / "made" / f"verdict.{end}").read_text() for end in ("html", "md"))
    assert not Tags(page).tags & {"script", "img", "iframe"}
    assert "default-src 'none'" in page
    assert "&lt;script>" in text
    stored = json.loads((tmp_path / "made" / "verdict.json").read_text())
    assert stored["verdicts"][hostile]["answer"] == "yes"
    assert stored["verdicts"][hostile]["gains"]["hard"]["value"] == pytest.approx(40.0)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, CLEAR)
    assert run(monkeypatch, "verdict", path, "--subcases", "--out", tmp_path / "made") == 0
    printed = capsys.readouterr().out
    assert "mask: yes" in printed
    assert "case 0" in printed
    assert (tmp_path / "made" / "verdict.html").exists()
    assert run(monkeypatch, "verdict", path, "--keep-id", "0.5", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdicts"]["mask"]["keeps"] == 0.5
    assert "--reference" in command_refused(monkeypatch, capsys, "verdict", path, "--reference", "x")
    assert "is a file" in command_refused(monkeypatch, capsys, "verdict", path, "--out", path)


# --- the guide -------------------------------------------------------------------------------------------------------


def test_the_guide_quotes_what_its_table_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "own-predictions.md").read_text()
    (script,) = re.findall(r"<<'EOF'\n(.*?)EOF\n", guide, re.S)
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.S)
    names: dict[str, Any] = {}
    exec(script, {})
    exec(code, names)
    assert re.findall("^> (.+)$", guide, re.M) == names["found"].lines
