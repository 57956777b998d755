"""What removing heads and neurons gains: `python -m benchmarks.deploy [--rounds 60] [--threads 2]`.

Also in benchmarks/deploy.json. The shapes of BERT-base with random weights; 70 % of the encoder's weights are removed:
8 of 12 heads and 2,202 of 3,072 neurons in every layer, others in each. One text of 128 tokens. Models take turns.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.models import batch_of
from srnet.core.files import write_json
from srnet.masks.granularity import groups_of
from srnet.masks.shrink import shrink
from srnet.masks.targets import LAYERS
from srnet.masks.units import blocks_of
from srnet.models.formats.graphs import GRAPH, GraphModel, open_graph, quantise
from srnet.models.formats.onnx import _write_graph
from srnet.models.model import OpenModel, in_memory
from srnet.timing.measuring import _time_models
from srnet.timing.pace import Pace

HEADS, NEURONS, LENGTH = 4, 870, 128
TARGETS = {"shrunk, torch": 3.0, "shrunk int8, onnxruntime": 6.0}


def masked() -> tuple[Any, float]:
    """A model under its mask, and the share of the encoder's weights that is removed."""
    torch.manual_seed(0)
    model = BertForSequenceClassification(BertConfig()).eval()
    keeps = {"attention": HEADS, "feed-forward": NEURONS}
    units = {block.name: torch.randperm(block.size) < keeps[block.kind] for block in blocks_of(model)}
    mask = groups_of(model, LAYERS.find(model), ("head", "neuron")).expand(units)
    model.load_state_dict(mask.apply(model.state_dict()))
    return model, mask.sparsity


def models(folder: Path) -> dict[str, OpenModel]:
    """The dense and the shrunk model in torch, and their graphs with and without rounding, by name."""
    dense, removed = masked()
    shrunk = copy.deepcopy(dense)
    shrink(shrunk)
    batch = batch_of(2, 16)
    with torch.no_grad():
        apart = float((dense(**batch).logits - shrunk(**batch).logits).abs().max())
    print(f"{100 * removed:.1f} % of the encoder's weights removed; logits differ by at most {apart:.1e}")
    found: dict[str, OpenModel] = {
        f"{name}, torch": in_memory(name, model) for name, model in (("dense", dense), ("shrunk", shrunk))
    }
    for name, model in (("dense", dense), ("shrunk", shrunk)):
        for kind in ("", " int8"):
            place = folder / f"{name}{kind}"
            place.mkdir()
            _write_graph(model, batch, place / GRAPH)
            if kind:
                quantise(place / GRAPH)
            found[f"{name}{kind}, onnxruntime"] = GraphModel(
                name=name,
                kind="onnx",
                labels=("0", "1"),
                load_tokenizer=lambda: None,
                folder=place,
                graph=open_graph(place / GRAPH),
                count_words=lambda: 1000,
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    pace = Pace(rounds=given.rounds, lengths=(LENGTH,), batch=1)
    torch.set_num_threads(given.threads)
    with tempfile.TemporaryDirectory() as folder:
        measured = models(Path(folder))
        sizes = {name: model.bytes for name, model in measured.items()}
        timings = [found[0] for found in _time_models(measured, pace)]
    table = Table(title=f"BERT-base, {LENGTH} tokens, one text, {given.threads} threads, torch {torch.__version__}")
    for name in ("model", "ms", "times dense in torch", "quartiles", "target", "met", "MB"):
        table.add_column(name, justify="left" if name == "model" else "right")
    rows = []
    for (name, size), timing in zip(sizes.items(), timings, strict=True):
        low, ratio, high = timing.ratio
        target = TARGETS.get(name)
        row = {"name": name, "ms": timing.p50, "ratio": ratio, "low": low, "high": high, "target": target}
        rows.append(row | {"met": None if target is None else ratio >= target, "bytes": size})
        met = "" if target is None else "yes" if ratio >= target else "NO"
        wanted = "" if target is None else f">= {target:g}"
        quartiles = f"{low:.2f} to {high:.2f}"
        table.add_row(name, f"{timing.p50:.1f}", f"{ratio:.2f}", quartiles, wanted, met, f"{size / 1e6:.0f}")
    Console().print(table)
    write_json(Path(__file__).parent / "deploy.json", {"threads": given.threads, "tokens": LENGTH, "models": rows})


if __name__ == "__main__":
    main()
