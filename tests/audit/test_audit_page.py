"""The files of an audit: a page that is small, safe and complete, a csv and a JSON."""

from __future__ import annotations

import csv
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from audited import YES_NO, Scripted, audit_of, split_of, task_of
from refusals import refused

from srnet.audit.report import Audit
from srnet.audit.tables import tables_of
from srnet.audit.writing import LARGEST, LONGEST, _render_page, check_writable, write_audit

HOSTILE = [
    ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>"),
    ("<!-- data -->", "-->]]>&lt;\u2028\u2029"),
    ("a 🙂 family 👨‍👩‍👧", "مرحبا 日本語"),
    ("word " * 10_000, "word"),
    ("", ""),
    ("nul \x00 and \x1b[31m", "\"quoted\", \\ and 'single'\n\r\tlines"),
    ("{{ 7 * 7 }}", "{% raw %}"),
]
ALWAYS_YES = Scripted(lambda a, b: (0.0, 3.0), name="<b>always yes</b>")
BY_LENGTH = Scripted(lambda a, b: (float(len(a) % 3), 1.0), name="by length & more")


class Page(HTMLParser):
    """What a browser would find: the elements, and what is inside scripts."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.scripts: list[str] = []
        self.text = ""
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.text += data

    @property
    def data(self) -> Any:
        return json.loads(self.scripts[0])


def hostile_audit() -> Audit:
    labels = [row % 2 for row in range(len(HOSTILE))]
    groups = [f"<i>{row % 2}</i> > sub" for row in range(len(HOSTILE))]
    dev, ood = (split_of(HOSTILE, labels, name, kind, groups) for name, kind in (("dev", "ID"), ("hard", "OOD")))  # type: ignore[arg-type]
    return audit_of(task_of(dev, [ood]), ALWAYS_YES, BY_LENGTH)


def test_hostile_texts_stay_texts_and_nothing_is_fetched() -> None:
    page = Page(_render_page(hostile_audit()))
    assert page.tags.count("script") == 2
    assert not {"img", "iframe", "b", "i"} & set(page.tags)
    assert not set("<>&") & set(page.scripts[0])
    assert "<b>always yes</b>" in page.text
    shown = {(row[3], row[4]) for row in page.data["rows"]}
    assert shown == {(a if len(a) <= LONGEST else f"{a[:LONGEST]} ...", b) for a, b in HOSTILE}
    assert "are shortened here" in page.text
    links = [value for name, value in page.attributes if name in ("src", "href", "action")]
    assert links == ["#glossary"], "it fetches nothing"
    (policy,) = [value for name, value in page.attributes if name == "content" and "default-src" in str(value)]
    assert str(policy).startswith("default-src 'none'")


def audit_of_size(rows: int, characters: int, letter: str = "x") -> Audit:
    rng = np.random.default_rng(0)
    texts = [(f"{letter * characters} {row}", f"{letter * characters} {row % 7}") for row in range(rows)]
    logits = rng.normal(size=(2, rows, 2))
    dev = split_of(texts, rng.integers(0, 2, rows).tolist(), groups=[f"case {row % 40}" for row in range(rows)])
    number = [Scripted(lambda a, b, m=m: logits[m, int(a.rsplit(" ", 1)[1])]) for m in (0, 1)]  # type: ignore[misc]
    return audit_of(task_of(dev), *number)


@pytest.mark.parametrize(("characters", "letter", "fits"), [(150, "x", True), (900, "ß", False)])
def test_six_thousand_pairs_fit_into_six_megabytes(characters: int, letter: str, fits: bool) -> None:
    rendered = _render_page(audit_of_size(6000, characters, letter))
    assert len(rendered) <= LARGEST
    page = Page(rendered)
    left_out = 6000 - len(page.data["rows"])
    assert (left_out == 0) == fits
    assert ("left out" in page.text) == (not fits)
    if not fits:
        assert len(rendered) > 0.99 * LARGEST
        assert f"{left_out:,} of 6,000 rows are left out" in page.text


def test_a_small_page_keeps_the_worst_rows() -> None:
    audit = audit_of_size(300, 20)
    everything = Page(_render_page(audit)).data["rows"]
    some = Page(_render_page(audit, len(_render_page(audit)) - 5000)).data["rows"]
    assert 0 < len(some) < 300
    assert some == everything[: len(some)]
    assert everything[0][11] == 1  # a disagreement


def test_long_tables_are_cut_on_the_page() -> None:
    rows = 500
    dev = split_of([("a", "b")] * rows, [0] * rows, groups=[f"case {row}" for row in range(rows)])
    audit = audit_of(task_of(dev), ALWAYS_YES)
    assert "300 more rows are in audit.json" in Page(_render_page(audit)).text


def read_csv(folder: Path) -> list[dict[str, str]]:
    with (folder / "examples.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_folder_has_a_page_a_csv_and_a_json(tmp_path: Path) -> None:
    audit = hostile_audit()
    out = write_audit(audit, tmp_path / "new" / "audit")
    assert sorted(each.name for each in out.iterdir()) == ["audit.html", "audit.json", "examples.csv"]
    written = json.loads((out / "audit.json").read_text())
    assert written["models"] == [ALWAYS_YES.name, BY_LENGTH.name]
    assert written["scores"][0]["difference"].keys() == {"value", "low", "high", "level"}
    assert written["sub_cases"][0].keys() == {"split", "name", "rows", "right", "difference", "accuracy"}
    rows = read_csv(out)
    formula = {"-->]]>&lt;\u2028\u2029": "'-->]]>&lt;\u2028\u2029"}  # a spreadsheet would run what begins with a minus
    assert [(row["text_a"], row["text_b"]) for row in rows] == 2 * [(a, formula.get(b, b)) for a, b in HOSTILE]
    assert {row["answer_a"] for row in rows} == {"yes"}
    assert [row["right_a"] for row in rows[:2]] == ["0", "1"]
    assert {row["shortcut_answer"] for row in rows} == {""}


def test_the_csv_holds_no_formula(tmp_path: Path) -> None:
    """In no column that the data decide about."""
    text, labels = "=HYPERLINK(1)", ("@no", "-1")
    dev = split_of([(text, text)] * 2, [0, 1], groups=[text] * 2)
    audit = audit_of(task_of(dev, labels=labels), Scripted(lambda a, b: (0.0, 1.0), labels, "model"))
    rows = read_csv(write_audit(audit, tmp_path / "audit"))
    assert {row[name] for row in rows for name in ("text_a", "text_b", "group")} == {f"'{text}"}
    assert [row["label"] for row in rows] == ["'@no", "-1"], "a number stays one"


def test_only_an_earlier_audit_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit, out = hostile_audit(), tmp_path / "audit"
    for _ in range(2):
        check_writable(out)
        write_audit(audit, out)
    (out / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    for place, name in ((out, "thesis.txt"), (tmp_path / "file", "file"), (tmp_path / "file" / "below", "file")):
        with refused(name):
            check_writable(place)
    with refused("--out"):
        check_writable(Path())


def test_tables_have_all_columns_and_one_model_has_no_comparison() -> None:
    dev = split_of([("the cat", "a cat"), ("dog", "dog")], [0, 1])
    alone, compared = audit_of(task_of(dev), ALWAYS_YES), hostile_audit()
    for audit in (alone, compared):
        tables = tables_of(audit)
        assert {len(row) - len(table.columns) for table in tables for row in table.rows} == {0}
        assert YES_NO[0] in " ".join(name for table in tables for name in table.columns)
        assert any("Loyalty" in table.title for table in tables) == (audit is compared)
    assert alone.disagreements == {"dev": 1}
    assert Page(_render_page(alone)).data["models"] == 1
