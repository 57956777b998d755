"""Speed is measured side by side: every kind of model, fair turns, and nothing that was altered."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gpus import NAME, Simulated
from processes import ForkServer
from refusals import refused
from small_models import VARIANTS, WORDS, pruned, tiny
from torch import nn
from transformers import T5Config, T5ForSequenceClassification

import srnet
from srnet.api.speeds import _drawn_length, _known_scores, by_score
from srnet.cli.program import main
from srnet.cli.speed import _table
from srnet.core.errors import UserError
from srnet.core.progress import Reporter
from srnet.experiment.engine import Engine
from srnet.experiment.known import known_about
from srnet.experiment.nodes.models import Pretrained
from srnet.experiment.store import Store
from srnet.models.formats.base import Source
from srnet.models.formats.card import _scores_on_card
from srnet.models.formats.merged import Merged
from srnet.models.formats.onnx import Onnx
from srnet.models.formats.shrunk import Shrunk
from srnet.models.model import in_memory
from srnet.models.open import open_model
from srnet.pruners.magnitude import OneShot
from srnet.tasks.synthetic import SyntheticTask
from srnet.timing import measuring
from srnet.timing.measuring import Measured, Timing, _time_models, _timing, interleaved, speed_against_scores
from srnet.timing.pace import Pace

QUICK = Pace(rounds=2, lengths=(8, 16), batch=2, memory=False, threads=1)


@pytest.fixture(scope="module")
def folders(tiny_backbone: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("formats")
    subnetwork = pruned(tiny_backbone)
    subnetwork.save(root / "subnetwork")
    formats = {"merged": Merged(), "shrunk": Shrunk(), "uniform": Shrunk(True), "onnx": Onnx(), "int8": Onnx(True)}
    for name, format in formats.items():
        format.write(Source(subnetwork), root / name)
    return root


def test_models_run_on_the_device_and_graphs_on_the_cpu(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each call moves its batch, and ends when the logits are on the host."""
    moved: list[Any] = []
    Simulated(monkeypatch, 1)
    monkeypatch.setattr(nn.Module, "to", lambda model, device: moved.append(device) or model)
    to = torch.Tensor.to
    gpu = torch.device("cuda")
    monkeypatch.setattr(
        torch.Tensor, "to", lambda own, *a, **k: moved.append(gpu) or own if a == (gpu,) else to(own, *a, **k)
    )
    found = srnet.speed(str(folders / "merged"), str(folders / "onnx"), pace=QUICK)
    assert len(moved) > 2
    assert set(moved) == {gpu}
    assert [each.device for each in found] == [NAME, "cpu"]
    table = _table(found, QUICK)
    assert table.title.startswith(f"On {NAME}.")
    assert f"not on {NAME} but on cpu: onnx" in table.note
    moved.clear()
    with srnet.use_device("cpu"):
        assert [each.device for each in srnet.speed(str(folders / "merged"), pace=QUICK)] == ["cpu"]
    assert set(moved) == {torch.device("cpu")}


def test_memory_of_a_gpu_is_that_of_its_tensors(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_call", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 12345)
    Simulated(monkeypatch, 1)
    assert measuring._peak(str(folders / "merged"), 1, 8, 1) == 12345
    assert measuring._peak(str(folders / "onnx"), 1, 8, 1) != 12345


def test_every_format_side_by_side(folders: Path, tiny_backbone: str) -> None:
    names = ("subnetwork", "merged", "shrunk", "uniform", "onnx", "int8")
    found = srnet.speed(*(str(folders / name) for name in names), tiny_backbone, pace=QUICK)
    assert [each.name for each in found] == [*names, "tiny"]
    by_name = {each.name: each for each in found}
    assert by_name["shrunk"].parameters < by_name["uniform"].parameters < by_name["merged"].parameters
    assert by_name["merged"].parameters == by_name["subnetwork"].parameters
    assert by_name["int8"].bytes < by_name["onnx"].bytes
    assert by_name["shrunk"].bytes < by_name["merged"].bytes
    for each in found:
        assert [(t.rows, t.length) for t in each.timings] == [(1, 8), (1, 16), (2, 8), (2, 16)]
        assert all(0 < t.p25 <= t.p50 <= t.p75 <= t.p95 for t in each.timings)
        assert json.loads(json.dumps(each.to_json()))["timings"][0]["per_second"] > 0
    assert all(timing.ratio == (1.0, 1.0, 1.0) for timing in found[0].timings)
    assert len(_table(found, QUICK).rows) == 7


def test_a_model_on_a_gpu_runs_there_until_its_logits_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that stops earlier measures how work is queued."""
    seen: list[Any] = []

    class OnGpu(nn.Module):
        config = SimpleNamespace(is_encoder_decoder=False, num_labels=2, id2label=None)

        def get_input_embeddings(self) -> nn.Embedding:
            return nn.Embedding(5, 2)

        def forward(self, **batch: torch.Tensor) -> Any:
            seen.extend(tensor.device for tensor in batch.values())
            return SimpleNamespace(logits=SimpleNamespace(cpu=lambda: "on the host"))

    monkeypatch.setattr("srnet.models.model.current_device", lambda: torch.device("meta"))
    model: Any = in_memory("model", OnGpu())  # type: ignore[arg-type]
    assert model.run(model.random_batch(1, 4)) == "on the host"
    assert seen == [torch.device("meta")] * 2


def test_memory_is_that_of_the_model(tmp_path: Path) -> None:
    """A model of forty megabytes takes at least as much, and not the memory of this process."""
    torch_model = tiny("bert")
    torch_model.resize_token_embeddings(600_000)
    torch_model.save_pretrained(tmp_path / "large")
    from architectures import ARCHITECTURES, tokenizer_for

    tokenizer_for(ARCHITECTURES["bert"]).save_pretrained(tmp_path / "large")
    (found,) = srnet.speed(str(tmp_path / "large"), pace=Pace(rounds=2, lengths=(4,), batch=2, threads=1))
    assert found.memory is not None
    assert found.memory > 4 * 16 * 600_000
    assert found.memory < 10**9


def test_a_script_is_not_run_again_for_the_memory(tiny_backbone: str, tmp_path: Path) -> None:
    """A process of `multiprocessing` imports the script, unless it is written for that."""
    script = tmp_path / "script.py"
    call = f"srnet.speed({tiny_backbone!r}, pace=Pace(rounds=2, lengths=(8,), batch=1, threads=1))"
    script.write_text(
        f"import srnet\nfrom srnet.timing.pace import Pace\nprint('once')\nprint({call}[0].memory is not None)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, check=True)
    assert ran.stdout.split() == ["once", "True"]
    assert "Traceback" not in ran.stderr


def test_turns_are_fair() -> None:
    """Every round runs each call once after a run that is not counted, and begins with another one."""
    seen: list[str] = []
    calls = [lambda name=name: seen.append(name) for name in "abc"]
    seconds = interleaved([calls[0], None, calls[1], calls[2]], rounds=4)
    assert seen[::2] == seen[1::2]
    rounds = ["".join(seen[start : start + 6 : 2]) for start in range(0, len(seen), 6)]
    assert len(rounds) == 3 + 4  # the warm-up
    assert {"".join(sorted(each)) for each in rounds} == {"abc"}
    assert {each[0] for each in rounds} == set("abc")
    assert [None if own is None else len(own) for own in seconds] == [4, None, 4, 4]


def test_quartiles_by_hand() -> None:
    own, first = np.array([0.001, 0.002, 0.003, 0.004, 0.005]), np.array([0.002, 0.004, 0.006, 0.004, 0.005])
    timing = _timing(4, 16, own, first)
    assert (timing.p25, timing.p50, timing.p75) == pytest.approx((2.0, 3.0, 4.0))
    assert timing.p95 == pytest.approx(4.8)
    assert timing.ratio == pytest.approx((1.0, 2.0, 2.0))
    assert timing.per_second == pytest.approx(4 / 0.003)


def test_a_text_that_is_too_long_for_one_of_them() -> None:
    models = {name: in_memory(name, tiny(kind)) for name, kind in (("short", "bert"), ("other", "mpnet"))}
    found = _time_models(models, Pace(rounds=2, lengths=(8, 200), batch=2))
    assert [[t.length for t in each] for each in found] == [[8, 8], [8, 8]]
    table = _table([Measured("short", "torch", 1, 1, None, tuple(found[0]))], Pace(lengths=(8, 200), batch=2))
    assert "too long" in [row[2] for row in table.rows]


@pytest.mark.parametrize("order", [("bert", "llama"), ("llama", "bert")])
def test_a_length_that_one_model_cannot_read_leaves_the_ratios_of_the_others(order: tuple[str, str]) -> None:
    """BERT has 24 positions here, Llama any number of them."""
    models = {name: in_memory(name, tiny(name)) for name in order}
    pace = Pace(rounds=2, lengths=(8, 200), batch=2)
    timings = _time_models(models, pace)
    found = [Measured(name, "torch", 1, 1, None, tuple(own)) for name, own in zip(order, timings, strict=True)]
    table = _table(found, pace)
    short, long = (table.columns.index(f"times the first, {length} tokens") for length in pace.lengths)
    first, second = table.rows
    assert first[short] == "1.00 (1.00 to 1.00)"
    assert re.fullmatch(r"[\d.]+ \([\d.]+ to [\d.]+\)", second[short])
    reasons = {"bert": ("too long", "too long for the first"), "llama": ("1.00 (1.00 to 1.00)", "too long")}
    assert (first[long], second[long]) == reasons[order[0]]
    assert "other lengths" in table.note
    json.dumps([each.to_json() for each in found], allow_nan=False)


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_architecture_runs(variant: str) -> None:
    model = in_memory(variant, tiny(variant))
    batch = model.random_batch(2, 5)
    assert batch["input_ids"].shape == (2, 5)
    assert int(batch["input_ids"].max()) < WORDS
    assert torch.equal(batch["attention_mask"], torch.ones(2, 5, dtype=torch.long))
    assert model.run(batch).shape == (2, 3)


def test_models_that_read_the_label_at_the_end_of_the_text() -> None:
    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = T5Config(vocab_size=4, pad_token_id=0, eos_token_id=3, decoder_start_token_id=0, num_labels=3, **sizes)
    model = in_memory("t5", T5ForSequenceClassification(config))
    batch = model.random_batch(6, 9)
    assert (batch["input_ids"] == 3).nonzero()[:, 1].tolist() == [8] * 6
    assert model.run(batch).shape == (6, 3)


def test_a_graph_reads_segments_where_it_declares_them(folders: Path) -> None:
    batch = open_model(folders / "onnx").random_batch(3, 4)
    assert set(batch) == {"input_ids", "attention_mask", "token_type_ids"}
    assert not batch["token_type_ids"].any()


def test_a_picture() -> None:
    timing = Timing(1, 128, 1.0, 2.0, 3.0, 4.0, (1.0, 1.0, 1.0))
    measured = [Measured(name, "torch", 1, 1, None, (timing,)) for name in ("a", "b")]
    figure = speed_against_scores(measured, {"score": {"a": 90.0}})
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a"]
    assert figure.axes[0].lines[0].get_xydata().tolist() == [[500.0, 90.0]]


@pytest.fixture
def scored(tmp_path: Path, tiny_backbone: str) -> tuple[Engine, str, Path]:
    """A model in the store with scores, and a folder exported from it."""
    engine = Engine(Store(tmp_path / "store"), Reporter(quiet=True))
    task = SyntheticTask("inference", train_size=40, dev_size=8, ood_size=8)
    raw = Pretrained(tiny_backbone, task, 0)
    key = srnet.prune(raw, OneShot(0.5, granularity=("head", "neuron")), engine=engine).key
    return engine, key, srnet.export_model(key, tmp_path / "small", format="shrunk", engine=engine)


def test_a_picture_of_known_scores(scored: tuple[Engine, str, Path], tmp_path: Path, tiny_backbone: str) -> None:
    """A panel for ID and one for OOD; the card of the folder has the scores of the key; the backbone has none."""
    engine, key, folder = scored
    models = {"key": key[:8], "folder": str(folder), "raw": tiny_backbone}
    found = by_score({name: _known_scores(model, engine) for name, model in models.items()})
    assert list(found) == ["inference dev (ID), accuracy", "inference challenge (OOD), accuracy"]
    about = known_about(engine.store, engine.models.find(key))
    for own, score in zip(found.values(), about.scores, strict=True):
        assert own == {"key": round(score.score.mean, 2), "folder": round(score.score.mean, 2)}
    srnet.speed(key[:8], str(folder), tiny_backbone, pace=QUICK, engine=engine, picture=tmp_path / "speed.png")
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_has_the_longest_text_that_all_can_read() -> None:
    one, other = (Timing(1, length, 1.0, 2.0, 3.0, 4.0, (1.0, 1.0, 1.0)) for length in (8, 16))
    both = [Measured("a", "torch", 1, 1, None, (one, other)), Measured("b", "torch", 1, 1, None, (one,))]
    assert _drawn_length(both, QUICK) == 8
    assert _drawn_length([both[0]], QUICK) == 16
    with refused("--lengths"):
        _drawn_length([Measured("a", "torch", 1, 1, None)], QUICK)


def test_scores_from_before_rounding_are_not_those_of_8_bits(folders: Path, tmp_path: Path) -> None:
    card = "---\nmodel-index: [{results: [{dataset: {name: x}, metrics: [{type: f1, value: 90}]}]}]\n---\n"
    for name in ("onnx", "int8"):
        shutil.copytree(folders / name, tmp_path / name)
        (tmp_path / name / "README.md").write_text(card)
    engine = Engine(Store(tmp_path / "store"))
    found = by_score({name: _known_scores(str(tmp_path / name), engine) for name in ("onnx", "int8")})
    assert found == {"x, f1": {"onnx": 90.0}}


def test_a_panel_for_every_score() -> None:
    timing = Timing(1, 16, 1.0, 2.0, 3.0, 4.0, (1.0, 1.0, 1.0))
    measured = [Measured(name, "torch", 1, 1, None, (timing,)) for name in ("a$", "b")]
    figure = speed_against_scores(measured, {"ID": {"a$": 90.0, "b": 80.0}, "OOD": {"b": 70.0}}, 16)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a\\$", "b"]
    left, right = (figure.axes[0].lines[1], figure.axes[1].lines[0])
    assert left.get_color() == right.get_color(), "a model has one colour in all panels"
    assert figure.axes[1].lines[0].get_xydata().tolist() == [[500.0, 70.0]]
    assert [axes.get_ylabel() for axes in figure.axes] == ["ID", "OOD"]


@pytest.mark.parametrize(
    "text",
    [
        "", "no header", "---\n- 1\n---\n", "---\nmodel-index: 3\n---\n", "---\n{\n---\n",
        "---\nmodel-index: [{results: [{dataset: {name: x}, metrics: [{type: f1, value: .nan}]}]}]\n---\n",
        "---\nmodel-index: [{results: [{dataset: {name: x}, metrics: []}]}]\n---\n",
    ],
)  # fmt: skip
def test_a_card_of_somebody_else_names_no_scores(text: str, tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(text)
    assert _scores_on_card(tmp_path) == {}


def test_a_picture_is_refused_before_anything_is_measured(
    tmp_path: Path, tiny_backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srnet.api.speeds.measure_speed", lambda *given: pytest.fail("measured"))
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "a-file").write_text("")
    cases = {"speed.png": "no score", "speed.bmp": "bmp", "speed": "none", "folder.png": "folder.png"}
    for name, named in (cases | {"a-file/speed.png": "a-file"}).items():
        with refused(named):
            srnet.speed(tiny_backbone, engine=Engine(Store(tmp_path / "store")), picture=tmp_path / name)


# --- refused -------------------------------------------------------------------------------------------------------


def test_what_is_no_model(tmp_path: Path) -> None:
    for name in (str(tmp_path), "deadbeef", "no-such-model"):
        with refused(name):
            srnet.speed(name, pace=QUICK, engine=Engine(Store(tmp_path / "store")))
    with refused("no model"):
        srnet.speed(pace=QUICK)


@pytest.mark.parametrize(
    "wrong",
    [{"rounds": 10**12}, {"threads": 10**6}, {"batch": 10**9}, {"lengths": (8, 10**9)}, {"lengths": (0,)},
     {"lengths": ()}],
    ids=str,
)  # fmt: skip
def test_what_no_machine_measures(wrong: dict[str, Any]) -> None:
    """A million threads end the process without a word; the others fill the memory."""
    with pytest.raises(UserError):
        Pace(**wrong)


OPTIONS = ("--rounds", "2", "--lengths", "8", "--batch", "2", "--threads", "1", "--no-memory", "--json")


def test_on_the_command_line(folders: Path, fork_server: ForkServer, tmp_path: Path) -> None:
    """In a process of its own, in another folder."""
    ran = fork_server.start(tmp_path, "speed", folders / "shrunk", folders / "int8", *OPTIONS)
    assert ran.code == 0, ran.said
    assert [each["name"] for each in json.loads(ran.printed)["models"]] == ["shrunk", "int8"]


def test_numbers_are_whole_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    timings = tuple(Timing(rows, 8, 1.0, 2.0, 3.0, 4.0, (1.0, 1.0, 1.0)) for rows in (1, 2))
    found = [Measured("a" * 40, "torch", 123_456_789, 1, 10**9, timings)]
    monkeypatch.setattr("srnet.speed", lambda *models, **options: found)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["srnet", "speed", "x", *OPTIONS[:-1]])
    with pytest.raises(SystemExit):
        main()
    assert "123,456,789" in capsys.readouterr().out
