"""Mask training beside full fine-tuning, a trained head and LoRA: the same data, backbone, steps, batches and seeds.

    python examples/beside_peft.py --task inference --seeds 5 --out beside
    python examples/beside_peft.py --train train.csv --dev dev.csv --ood hard=hard.csv --shortcut words --backbone DIR

Each method is trained with cross-entropy and with a product of experts (PoE). It needs `pip install peft`. What is
finished is kept in --out and is not trained again. At the end it writes report.md, results.json, a picture, and
predictions.csv, which `srnet verdict` reads.

The rules are the same for all methods. Modules that the checkpoint has no weights for (the classifier) train in every
method. There is one learning rate for everything that trains: of four, the best one on ID rows that are held out of
training, at a seed that is not reported. OOD rows choose nothing. AdamW without weight decay, warm-up over 5 % of the
steps, linear decay, gradients clipped at 1; the model after the last step is the result.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from beside_peft_methods import METHODS, Full
from beside_peft_report import Costs, Record, medians, peak_bytes, write_report
from torch import nn

import srnet
from srnet.evaluation.metrics import measure
from srnet.models.backbones import load_backbone
from srnet.tasks.base import Task
from srnet.tasks.own import task_of_files
from srnet.tasks.splits import Split

TUNING_SEED = 1000
LOSSES = ("ce", "poe")

# --- data and one training -------------------------------------------------------------------------------------------


class Data:
    """A task without its held-out rows, the bias model, and texts as token ids."""

    def __init__(self, task: Task, backbone: str, max_length: int) -> None:
        rows = np.random.default_rng(0).permutation(len(task.train))
        held_out = min(2000, len(rows) // 10)
        self.held_out = replace(task.train.take(rows[:held_out]), name="held out")
        self.task = replace(task, train=task.train.take(rows[held_out:]))
        train, classes = self.task.train, list(range(len(task.labels)))
        self.bias = srnet.fit_bias(**texts_of(train), labels=train.labels, shortcut=task.shortcut, label_order=classes)
        self.bias_of_train = torch.from_numpy(self.bias.log_probs).float()
        self.labels = torch.from_numpy(self.task.train.labels)
        self.backbone, self.max_length = backbone, max_length
        self.tokenizer = load_backbone(backbone, task.labels, 0).tokenizer
        self.train = self.tokens(self.task.train)

    def load(self, seed: int) -> tuple[Any, list[str]]:
        """The backbone with a head that is randomly initialised from the seed, and the head's modules."""
        loaded = load_backbone(self.backbone, self.task.labels, seed)
        return loaded.model, sorted({name.rpartition(".")[0] for name in loaded.fresh})

    def tokens(self, split: Split) -> list[dict[str, list[int]]]:
        columns = self.tokenizer(*texts_of(split).values(), truncation=True, max_length=self.max_length)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def batch(self, rows: list[dict[str, list[int]]]) -> Any:
        return self.tokenizer.pad(rows, return_tensors="pt")

    @torch.no_grad()
    def predictions(self, model: nn.Module, split: Split) -> np.ndarray:
        model.eval()
        rows = self.tokens(split)
        logits = [model(**self.batch(rows[start : start + 100])).logits for start in range(0, len(rows), 100)]
        return self.task.answer_kind.decode(split, torch.cat(logits).numpy())


def texts_of(split: Split) -> dict[str, list[str]]:
    pairs = {"texts_b": list(split.text_b)} if any(split.text_b) else {}
    return {"texts": list(split.text_a), **pairs}


def batches(examples: int, size: int, steps: int, seed: int) -> Iterator[torch.Tensor]:
    """The rows of each batch: the same for every method and loss."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        for rows in torch.randperm(examples, generator=generator).split(size)[: examples // size]:
            if steps == 0:
                return
            steps -= 1
            yield rows


@dataclass(frozen=True)
class Run:
    method: str
    loss: str
    seed: int
    rate: float


def train(run: Run, data: Data, steps: int, batch_size: int, loaded: tuple[Any, list[str]] | None = None) -> Full:
    """One training; returns the method with its trained model."""
    model, head = loaded or data.load(run.seed)
    torch.manual_seed(run.seed)  # of dropout and of LoRA's matrices
    method = METHODS[run.method](model, head, steps)
    optimizer = torch.optim.AdamW(method.groups(run.rate), lr=run.rate, weight_decay=0.0)
    warmup = max(1, steps // 20)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: min((n + 1) / warmup, (steps - n) / steps))
    method.model.train()
    for rows in batches(len(data.train), batch_size, steps, run.seed):
        logits = method.model(**data.batch([data.train[row] for row in rows])).logits
        if run.loss == "ce":
            loss = srnet.losses.ce(logits, data.labels[rows])
        else:
            loss = srnet.losses.poe(logits, data.labels[rows], bias=data.bias_of_train[rows])
        (loss + method.penalty()).backward()
        nn.utils.clip_grad_norm_(method.trained(), 1.0)
        optimizer.step()
        method.step()
        optimizer.zero_grad()
        schedule.step()
    return method


# --- all trainings, each once ----------------------------------------------------------------------------------------


def finished(run: Run, data: Data, options: argparse.Namespace) -> Record:
    """The record of a run: read if it exists, otherwise trained now and written at once."""
    file = options.out / "runs" / f"{run.method}-{run.loss}-{run.seed}-{run.rate:g}.json"
    if file.exists():
        return json.loads(file.read_text())
    method = train(run, data, options.steps, options.batch)
    tuning = run.seed == TUNING_SEED  # such runs see neither ID dev nor OOD rows
    splits = [data.held_out] if tuning else [data.task.splits[name] for name in data.task.scored]
    record = vars(run) | {"trained": sum(parameter.numel() for parameter in method.trained())}
    if not tuning:
        record["bytes"] = save(method, options.out / "tasks" / f"{run.method}-{run.loss}-{run.seed}")
    model = method.deployed()
    record["sparsity"] = method.sparsity
    predictions = {split.name: data.predictions(model, split) for split in splits}
    record["scores"] = {s.name: 100 * measure(data.task.metric, predictions[s.name], s.labels) for s in splits}
    record["predictions"] = {} if tuning else {name: each.tolist() for name, each in predictions.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(".part")
    partial.write_text(json.dumps(record))
    partial.replace(file)
    print(f"{file.stem}: " + ", ".join(f"{name} {score:.1f}" for name, score in record["scores"].items()), flush=True)
    return record


def save(method: Full, folder: Path) -> int:
    """Write the task; returns its bytes, without the README that PEFT adds."""
    shutil.rmtree(folder, ignore_errors=True)  # of a run that was interrupted
    folder.mkdir(parents=True)
    method.save(folder)
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.name != "README.md")


def choose_rate(method: str, loss: str, data: Data, options: argparse.Namespace) -> float:
    """The learning rate with the highest score on the held-out ID rows; of equal ones the smallest."""
    tries = [Run(method, loss, TUNING_SEED, rate) for rate in METHODS[method].rates]
    return max(tries, key=lambda run: finished(run, data, options)["scores"][data.held_out.name]).rate


def run_all(data: Data, options: argparse.Namespace) -> list[Record]:
    records = []
    for method in options.methods:
        for loss in LOSSES:
            rate = choose_rate(method, loss, data, options)
            records += [finished(Run(method, loss, seed, rate), data, options) for seed in range(options.seeds)]
    return records


def measure_costs(records: list[Record], data: Data, options: argparse.Namespace) -> Costs:
    """Memory, seconds of a step and seconds of a text, by method; measured once. The machine should be idle.

    Memory: what a training of three steps holds at most beyond the loaded backbone. Deployed models are loaded from
    their folders, and have to give the recorded predictions.
    """
    file = options.out / "costs.json"
    costs = json.loads(file.read_text()) if file.exists() else {}
    if set(costs) >= set(options.methods):
        return {method: costs[method] for method in options.methods}

    def steps(method: str, count: int, loaded: Any = None) -> Full:
        return train(Run(method, "ce", 0, METHODS[method].rates[0]), data, count, options.batch, loaded)

    def deployed(method: str, loss: str) -> nn.Module:
        return METHODS[method].load(data.load(0)[0], options.out / "tasks" / f"{method}-{loss}-0")

    def peak(method: str) -> int:
        loaded = data.load(0)
        return peak_bytes(lambda: steps(method, 3, loaded))

    one = data.batch(data.tokens(data.task.dev)[:1])
    for record in (each for each in records if each["seed"] == 0):
        model = deployed(record["method"], record["loss"])
        same = {name: data.predictions(model, data.task.splits[name]).tolist() for name in data.task.scored}
        if same != record["predictions"]:
            raise RuntimeError(f"{record['method']} ({record['loss']}): its folder gives other predictions")
    models = {method: deployed(method, "ce").eval() for method in options.methods}
    with torch.inference_mode():
        texts = medians({method: partial(model, **one) for method, model in models.items()}, 201)
    short, long = (medians({m: partial(steps, m, count) for m in options.methods}, 12) for count in (3, 13))
    costs = {m: {"memory": peak(m), "step": (long[m] - short[m]) / 10, "text": texts[m]} for m in options.methods}
    file.write_text(json.dumps(costs, indent=1))
    return costs


# --- the command line ------------------------------------------------------------------------------------------------


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--task", default="inference", help="task of the embedded benchmark")
    add("--train", help="your own training file instead: csv, tsv or jsonl")
    add("--dev", default="", help="ID dev; without it some training rows are split off")
    add("--ood", action="append", default=[], metavar="NAME=FILE")
    add("--shortcut", default="words", help="what the bias model of your own files reads: words, overlap, claim, ...")
    add("--metric", default="accuracy")
    add("--rows", type=int, help="at most this many rows of each split")
    add("--backbone", default="srnet-tiny", help="folder or hub name of an encoder")
    add("--methods", type=lambda text: text.split(","), default=list(METHODS), help=",".join(METHODS))
    add("--seeds", type=int, default=5)
    add("--steps", type=int, default=700)
    add("--batch", type=int, default=32)
    add("--max-length", type=int, default=128)
    add("--out", type=Path, default=Path("beside"))
    add("--dry-run", action="store_true", help="say how many trainings there are, and how many are finished")
    options = parser.parse_args()
    if unknown := set(options.methods) - set(METHODS):
        raise srnet.UserError(f"unknown method '{min(unknown)}'", f"methods: {', '.join(METHODS)}")
    if "full" not in options.methods:
        raise srnet.UserError("all methods are compared with full fine-tuning", "add full to --methods")
    if any("lora" in method for method in options.methods) and importlib.util.find_spec("peft") is None:
        raise srnet.UserError("LoRA needs the package peft", "pip install peft")
    if min(options.seeds, options.steps, options.batch) < 1:
        raise srnet.UserError("seeds, steps and batch must be at least 1")
    return options


def load_task(options: argparse.Namespace) -> Task:
    if options.train is None:
        sizes = ("train_size", "dev_size", "ood_size") if options.rows else ()
        return replace(srnet.SyntheticTask(options.task, **dict.fromkeys(sizes, options.rows)).load(), ood_train=None)
    ood = dict(each.split("=", 1) for each in options.ood)
    rows = {name: options.rows for name in ("train", "dev", *ood) if options.rows}
    more = {"shortcut": options.shortcut, "metric": options.metric, "rows": tuple(rows.items()), "say": print}
    return task_of_files(options.train, options.dev, ood, **more).load()


def plan(options: argparse.Namespace) -> str:
    tries = sum(len(LOSSES) * len(METHODS[method].rates) for method in options.methods)
    reported = len(LOSSES) * len(options.methods) * options.seeds
    pairs = [f"{method}-{loss}" for method in options.methods for loss in LOSSES]
    done = sum(len(list((options.out / "runs").glob(f"{pair}-*.json"))) for pair in pairs)
    return f"{tries + reported} trainings of {options.steps} steps ({tries} to choose learning rates); {done} finished"


def remember(options: argparse.Namespace) -> dict[str, str]:
    """The settings of a folder's results; another run with other ones is refused."""
    settings = {k: str(v) for k, v in vars(options).items() if k not in ("methods", "seeds", "out", "dry_run")}
    file = options.out / "settings.json"
    if file.exists() and json.loads(file.read_text()) != settings:
        raise srnet.UserError(f"{options.out} has results of other settings", "choose another --out")
    options.out.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(settings, indent=1))
    return settings


def main() -> None:
    options = parse_options()
    print(plan(options))
    if options.dry_run:
        return
    settings = remember(options)
    data = Data(load_task(options), options.backbone, options.max_length)
    records = run_all(data, options)
    costs = measure_costs(records, data, options)
    bias = {name: data.bias.predict(**texts_of(data.task.splits[name])) for name in data.task.scored}
    names = {method: METHODS[method].about for method in options.methods}
    print(write_report(options.out, data.task, names, records, costs, bias, settings))


if __name__ == "__main__":
    try:
        main()
    except srnet.UserError as error:
        sys.exit(f"beside_peft: {error}")
