"""The report of `beside_peft.py`: scores with intervals, costs, tables in Markdown, a picture, predictions as csv."""

from __future__ import annotations

import csv
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import srnet
from srnet.evaluation.metrics import measure
from srnet.evaluation.significance import paired_bootstrap, spread
from srnet.tasks.base import Task

Record = dict[str, Any]
"""One training: method, loss, seed, rate, trained, bytes, sparsity, scores and predictions by split."""
Costs = dict[str, dict[str, float]]
"""By method: `memory` in bytes, seconds of a `step`, seconds of a `text`."""
REFERENCE = "full fine-tuning (CE)"
MARKERS = {"ce": ("o", "CE"), "poe": ("s", "PoE")}


def write_report(
    out: Path,
    task: Task,
    names: Mapping[str, str],
    records: Sequence[Record],
    costs: Costs,
    bias: Mapping[str, np.ndarray],
    settings: Mapping[str, str],
) -> str:
    """Write report.md, results.json, predictions.csv and a picture; returns the report."""
    entries, others, tries = summary(records, task, names), references(task, bias), read_tries(out, names)
    write_predictions(records, task, names, out / "predictions.csv")
    judged = srnet.verdict(out / "predictions.csv", reference=REFERENCE, id=task.dev.name, metric=task.metric)
    for entry in entries:
        entry["verdict"] = judged.verdicts[entry["system"]].short if entry["system"] != REFERENCE else "reference"
    seeds = len({record["seed"] for record in records})
    sizes = {name: len(task.splits[name]) for name in ("train", *task.scored)}
    about = {
        "settings": settings,
        "seeds": seeds,
        "metric": task.metric,
        "rows": sizes,
        "threads": torch.get_num_threads(),
    }
    results = {**about, "systems": entries, "references": others, "costs": costs, "learning rates": tries}
    (out / "results.json").write_text(json.dumps(results, indent=1))
    draw(entries, task, names, out / "beside-peft.png")
    parts = (score_table(entries, others, task), cost_table(entries, costs, names), tries_table(tries))
    report = "\n\n".join((f"{task.metric} in percent, {seeds} seeds", *parts))
    (out / "report.md").write_text(report + "\n", encoding="utf-8")
    return report


def grouped(records: Sequence[Record]) -> dict[tuple[str, str], list[Record]]:
    """Records by method and loss, in order of their seeds."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in sorted(records, key=lambda each: each["seed"]):
        groups.setdefault((record["method"], record["loss"]), []).append(record)
    return groups


def write_predictions(records: Sequence[Record], task: Task, names: Mapping[str, str], file: Path) -> None:
    """The long format of `srnet verdict`."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(("system", "seed", "split", "id", "label", "prediction"))
        for record in records:
            for name, answers in record["predictions"].items():
                split, system = task.splits[name], system_name(record, names)
                classes = task.classes_of(split)
                for row, label, answer in zip(split.ids, split.labels, answers, strict=True):
                    writer.writerow((system, record["seed"], name, row, classes[label], classes[answer]))


def system_name(record: Record, names: Mapping[str, str]) -> str:
    return f"{names[record['method']]} ({MARKERS[record['loss']][1]})"


# --- scores ----------------------------------------------------------------------------------------------------------


def summary(records: Sequence[Record], task: Task, names: Mapping[str, str]) -> list[dict[str, Any]]:
    """One entry per method and loss; differences are paired by seed and example, with 95 % intervals."""
    groups = grouped(records)

    def difference(ours: list[Record], theirs: list[Record], split: str) -> dict[str, Any]:
        sides = [[np.array(each["predictions"][split]) for each in side] for side in (ours, theirs)]
        interval = paired_bootstrap(*sides, task.splits[split].labels, task.metric)
        return {"difference": interval.difference, "low": interval.low, "high": interval.high, "text": str(interval)}

    result = []
    for (method, loss), group in groups.items():
        entry: dict[str, Any] = {
            "system": system_name(group[0], names),
            **{name: group[0][name] for name in ("method", "loss", "rate", "trained")},
            "sparsity": statistics.mean(each["sparsity"] for each in group),
            "bytes": statistics.mean(each["bytes"] for each in group),
            "scores": {split: [each["scores"][split] for each in group] for split in task.scored},
        }
        for against, other in (("minus full CE", ("full", "ce")), (f"minus full {MARKERS[loss][1]}", ("full", loss))):
            if (method, loss) != other and other in groups:
                entry[against] = {split: difference(group, groups[other], split) for split in task.scored}
        result.append(entry)
    return result


def references(task: Task, bias: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Scores to compare with: the bias model and, where it is known, theory."""
    scored = {name: task.splits[name] for name in task.scored}
    rows = {name: dict(answers) for name, answers in task.ideal.items()}
    rows["bias model"] = {name: task.answer_kind.decode(each, bias[name]) for name, each in scored.items()}
    return {
        name: {split: 100 * measure(task.metric, answers[split], each.labels) for split, each in scored.items()}
        for name, answers in rows.items()
    }


def score_table(entries: Sequence[dict[str, Any]], others: dict[str, dict[str, float]], task: Task) -> str:
    ood = list(task.ood)
    head = ["method", "learning rate", *(f"ID {s}" if s not in ood else f"OOD {s}" for s in task.scored)]
    head += [f"{split} minus full CE [95 %]" for split in task.scored]
    head += [*(f"OOD {split} minus full PoE [95 %]" for split in ood), "keeps 95 % of ID and gains OOD?"]
    rows = []
    for entry in entries:
        row = [entry["system"], f"{entry['rate']:g}", *(str(spread(entry["scores"][s])) for s in task.scored)]
        row += [entry["minus full CE"][s]["text"] if "minus full CE" in entry else "" for s in task.scored]
        row += [entry["minus full PoE"][s]["text"] if "minus full PoE" in entry else "" for s in ood]
        rows.append([*row, entry["verdict"]])
    rows += [[name, "", *(f"{scores[split]:.1f}" for split in task.scored)] for name, scores in others.items()]
    return markdown(head, rows)


def cost_table(entries: Sequence[dict[str, Any]], costs: Costs, names: Mapping[str, str]) -> str:
    head = ["method", "trained parameters", "kB of a task on disk", "MB to train", "ms a step", "ms a text, deployed"]
    rows = []
    for method, cost in costs.items():
        both = [each for each in entries if each["method"] == method]
        size = statistics.mean(each["bytes"] for each in both)
        row = [names[method], f"{both[0]['trained']:,}", f"{size / 1e3:,.1f}", f"{cost['memory'] / 1e6:.1f}"]
        rows.append([*row, f"{1e3 * cost['step']:.1f}", f"{1e3 * cost['text']:.2f}"])
    return markdown(head, rows)


def read_tries(out: Path, names: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """The score on held-out ID rows by system and learning rate: those runs have no other split."""
    tries: dict[str, dict[str, float]] = {}
    records = [json.loads(file.read_text()) for file in (out / "runs").glob("*.json")]
    for record in sorted(records, key=lambda each: (each["method"], each["loss"], each["rate"])):
        if "held out" in record["scores"] and record["method"] in names:
            tries.setdefault(system_name(record, names), {})[f"{record['rate']:g}"] = record["scores"]["held out"]
    return tries


def tries_table(tries: dict[str, dict[str, float]]) -> str:
    width = max(map(len, tries.values()))
    rows = [[system, *(f"{rate}: {score:.1f}" for rate, score in each.items())] for system, each in tries.items()]
    return markdown(["method", *(f"try {number + 1}" for number in range(width))], rows)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    width = len(head)
    lines = [head, ["---"] * width, *([*row, *[""] * (width - len(row))] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# --- costs -----------------------------------------------------------------------------------------------------------


def peak_bytes(function: Callable[[], object]) -> int:
    """The most that torch's allocator holds at once of what it allocates during a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        function()
    with TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(trace))
        events = [each for each in json.loads(trace.read_text())["traceEvents"] if each.get("name") == "[memory]"]
    return max(accumulate(each["args"]["Bytes"] for each in sorted(events, key=lambda each: each["ts"])))


def medians(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median seconds of each call. Every round calls each once, so that a disturbance concerns all of them."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(each[1:]) for name, each in seconds.items()}


# --- the picture -----------------------------------------------------------------------------------------------------


def draw(entries: Sequence[dict[str, Any]], task: Task, names: Mapping[str, str], file: Path) -> None:
    """Each OOD score over the bytes of a task; bars are standard deviations."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(task.ood), figsize=(6.4 * len(task.ood), 4.2), squeeze=False)
    for axis, split in zip(axes[0], task.ood, strict=True):
        for number, method in enumerate(dict.fromkeys(entry["method"] for entry in entries)):
            both = [entry for entry in entries if entry["method"] == method]
            spreads = [spread(entry["scores"][split]) for entry in both]
            axis.plot([e["bytes"] for e in both], [s.mean for s in spreads], color=f"C{number}", label=names[method])
            for entry, each in zip(both, spreads, strict=True):
                marker, fill = MARKERS[entry["loss"]][0], "white" if entry["loss"] == "ce" else f"C{number}"
                style = {"fmt": marker, "color": f"C{number}", "mfc": fill, "capsize": 3}
                axis.errorbar(entry["bytes"], each.mean, each.sd, **style)
        axis.set(xscale="log", xlabel="bytes of a task on disk", ylabel=f"OOD {split}, {task.metric} in percent")
    title = {"title": "hollow circle: CE, square: PoE", "title_fontsize": 8}
    axes[0][0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2, fontsize=8, **title)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
