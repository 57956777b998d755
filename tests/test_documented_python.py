"""The Python of README.md and docs/ runs, page by page, with few steps and rows."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import transformers
from documented import exception, of_language

import srnet
from srnet.audit.contrast import RULES

FEW = {"steps": 2, "eval_every": 1, "batch_size": 8}
FEWER = {
    r'SyntheticTask\("inference"\)': 'SyntheticTask("inference", train_size=60, dev_size=30, ood_size=30)',
    r"steps=\d+, eval_every=\d+": "steps=2, eval_every=1, batch_size=8",
    r"^steps = \d+": "steps = 4",
    r"\brange\(300\)": "range(4)",
    r"train_size=8000": "train_size=200",
    r"srnet\.finetune\(task\)": "srnet.finetune(task, training=FEW)",
    r'srnet\.prune\((.*), "poe"\)': r'srnet.prune(\1, "poe", training=FEW)',
    r'    "poe",': '    "poe", training=FEW,',
    r'srnet\.find\((.*?)(, out="found")?\)$': r"srnet.plan_find(\1)",
    r'backbone="FOLDER"': 'backbone="srnet-tiny"',
    r"bert-base-uncased": "srnet-tiny",
}
"""What makes the Python of a page quick, and names models that exist here."""
SETUP = {
    "README.md": (
        "import torch\n"
        "model = torch.nn.Sequential(torch.nn.Linear(4, 2))\n"
        "batches = [(torch.randn(8, 4), torch.randint(2, (8,))) for _ in range(3)]"
    ),
    "docs/commands.md": 'import srnet; task = srnet.SyntheticTask("inference")',
    "docs/deploy/masks.md": "import srnet",
    "docs/guides/your-own-data.md": (
        "import pandas, srnet\n"
        "films = [f'film {n} is {w}' for n in range(90) for w in ('good', 'bad')]\n"
        "rows = pandas.DataFrame({'review': films, 'sentiment': [film.split()[-1] for film in films]})\n"
        "frame, other, hard = rows[:80], rows[80:100], rows[100:]"
    ),
    "docs/guides/own-predictions.md": (
        "from documented import ROOT\n"
        "exec((ROOT / 'docs/guides/own-predictions.md').read_text().split(\"<<'EOF'\\n\")[1].split('\\nEOF')[0])"
    ),
    "docs/static-pruning.md": (
        "import srnet; from transformers import AutoModelForMaskedLM, AutoTokenizer\n"
        'made = srnet.prune(srnet.SyntheticTask("inference"), srnet.StaticShared(0.9), words=("task",), training=FEW)\n'
        'srnet.export_model(made.key, folder := "words", format="merged")'
    ),
}
"""What the text of a page takes as given."""


@pytest.fixture(scope="module")
def models_and_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, and with models and files such as a reader has."""
    folder = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("SRNET_STORE", "store")
        write_models_and_files()
    return folder


@pytest.fixture
def place(models_and_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder to work in, with these."""
    for path in models_and_files.iterdir():
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRNET_STORE", str(models_and_files / "store"))


def write_models_and_files() -> None:
    task = srnet.SyntheticTask("inference", train_size=60, dev_size=30, ood_size=30)
    full = srnet.finetune(task, training=FEW)
    sparse = srnet.prune(full.key, srnet.OneShot(sparsity=0.5))
    FEWER["1f3a90c2"] = sparse.key
    for name, key, kind in (("merged", full.key, "merged"), ("DIR", sparse.key, "subnetwork")):
        srnet.export_model(key, name, format=kind)
    for name in ("exported/nli", "exported/qqp"):
        shutil.copytree("DIR", name)
    balanced = srnet.prune(srnet.GrammarTask("sentences"), srnet.OneShot(sparsity=0.2), backbone="srnet-decoder")
    srnet.export_model(balanced.key, "exported/balanced", format="subnetwork")
    write_own_model(Path("FOLDER"))
    write_own_files()


def write_own_model(folder: Path) -> None:
    """A classifier whose labels have no names."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained("merged")
    model.config.id2label = {0: "LABEL_0", 1: "LABEL_1"}
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained("merged").save_pretrained(folder)


def write_own_files() -> None:
    write_rows(Path("reviews"), "text,label", ("negative", "positive"))
    srnet.describe_files("reviews/reviews.yaml", "reviews/train.csv", "reviews/dev.csv")
    write_rows(Path(), "review,label", ("neg", "pos"))


def write_rows(folder: Path, header: str, labels: tuple[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for name in ("train", "dev"):
        rows = "".join(f"{name} film {n} {'*' * n},{labels[n % 2]}\n" for n in range(40))
        (folder / f"{name}.csv").write_text(f"{header}\n{rows}")


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page registers is gone after its test, and a server that it starts ends at once."""
    for name in ("negate", "polite"):
        monkeypatch.setitem(RULES, name, RULES.get(name))
    monkeypatch.setattr("uvicorn.Server.run", lambda *given, **more: None)


def quick(code: str) -> str:
    for pattern, stands in FEWER.items():
        code = re.sub(pattern, stands, code, flags=re.MULTILINE)
    return code


@pytest.mark.usefixtures("place", "restored")
@pytest.mark.parametrize("page", of_language("python"))
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str) -> None:
    namespace: dict[str, Any] = {"FEW": FEW}
    exec(quick(SETUP.get(page, "")), namespace)
    for block in of_language("python")[page]:
        code = compile("\n" * block.line + quick(block.text), block.page, "exec")
        if not exception(block):
            exec(code, namespace)
