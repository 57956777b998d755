"""The bias features, vectorised, against a plain loop over the pairs: also in benchmarks/features.json.

    python -m benchmarks.features [--pairs FILE.tsv --columns premise,hypothesis] [--vectors SOURCE]

Without files the text is generated: words as frequent as Zipf's law has it, and random vectors of 50 numbers.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import tracemalloc
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from rich.console import Console

from benchmarks.timing import compare
from srnet.bias.shortcuts.overlap import overlap_features
from srnet.bias.texts import tokenise
from srnet.bias.vectors import WordVectors
from srnet.core.files import write_json

PAIRS = 50_000
DIM = 50

Pairs = tuple[list[str], list[str]]


# --- the loop ------------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def is_subsequence(inner: list[str], outer: list[str]) -> bool:
    size = len(inner)
    return any(outer[start : start + size] == inner for start in range(len(outer) - size + 1))


class Loop:
    """A pair at a time, as srnet had it before. The vectors have unit length beforehand."""

    def __init__(self, known: list[str], unit: np.ndarray) -> None:
        self._unit = dict(zip(known, unit, strict=True))
        self._zero = np.zeros(unit.shape[1], unit.dtype)

    def __call__(self, text_a: list[str], text_b: list[str]) -> np.ndarray:
        return np.array([self._row(words(a), words(b)) for a, b in zip(text_a, text_b, strict=True)])

    def _row(self, premise: list[str], hypothesis: list[str]) -> list[float]:
        if not hypothesis:
            return [0.0] * 5
        seen = set(premise)
        inside = [word in seen for word in hypothesis]
        best = self._best_similarities(hypothesis, premise)
        row = [float(all(inside)), float(is_subsequence(hypothesis, premise)), sum(inside) / len(inside)]
        return [*row, float(best.mean()), float(best.min())]

    def _best_similarities(self, some: list[str], others: list[str]) -> np.ndarray:
        if not others:
            return np.zeros(len(some))
        similarity = self._vectors(some) @ self._vectors(others).T
        same = np.array([[a == b for b in others] for a in some])
        return np.asarray(np.where(same, 1.0, similarity).max(axis=1))

    def _vectors(self, some: list[str]) -> np.ndarray:
        return np.stack([self._unit.get(word, self._zero) for word in some])


# --- the data ------------------------------------------------------------------------------------------------------


def generated() -> Pairs:
    """Lengths as in SNLI; half of a hypothesis is taken from its premise."""
    rng = np.random.default_rng(0)
    names = np.array([f"w{number}" for number in range(20_000)])

    def some(size: int) -> list[str]:
        return names[np.minimum(rng.zipf(1.3, size) - 1, len(names) - 1)].tolist()

    premises, hypotheses = [], []
    for _ in range(PAIRS):
        premise = some(4 + rng.poisson(10))
        premises.append(" ".join(premise) + ".")
        hypotheses.append(" ".join([*premise[: rng.integers(1, 6)], *some(rng.integers(1, 8))]) + ".")
    return premises, hypotheses


def from_file(path: Path, columns: str) -> Pairs:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:PAIRS]
    first, second = columns.split(",")
    return [row[first] for row in rows], [row[second] for row in rows]


def vectors_for(vocabulary: list[str], source: str | None) -> WordVectors:
    if source is not None:
        return WordVectors.read(source, vocabulary)
    matrix = np.random.default_rng(0).normal(size=(len(vocabulary), DIM))
    return WordVectors({word: row for row, word in enumerate(vocabulary)}, matrix)


# --- what is measured ----------------------------------------------------------------------------------------------


def memory(text_a: list[str], text_b: list[str], vectors: WordVectors) -> int:
    """Bytes at the peak beyond the features themselves: NumPy's and Python's, and at most those of Arrow's pool."""
    tracemalloc.start()
    features = overlap_features(text_a, text_b, vectors)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - features.nbytes + int(pa.default_memory_pool().max_memory() or 0)


def large_file(rows: int) -> dict[str, Any]:
    """CPU seconds and peak memory of `data check` and of the bias model on a csv file with so many rows."""
    rng = random.Random(0)
    some = [f"word{number}" for number in range(5_000)]

    def row() -> str:
        return f"{' '.join(rng.choices(some, k=10))}.,{' '.join(rng.choices(some, k=6))}.,{rng.choice('ny')}\n"

    with tempfile.TemporaryDirectory() as folder:
        for name, count in (("train", rows), ("dev", 2_000), ("ood", 2_000)):
            with (Path(folder) / f"{name}.csv").open("w") as file:
                file.write("text_a,text_b,label\n")
                file.writelines(row() for _ in range(count))
        task = {
            "name": "large",
            "train": "train.csv",
            "dev": "dev.csv",
            "ood": {"ood": "ood.csv"},
            "labels": ["n", "y"],
        }
        (Path(folder) / "large.yaml").write_text(json.dumps(task))
        commands = {"data_check": ["data", "check", "large.yaml"], "bias": ["bias", "--task", "large.yaml", "-q"]}
        measured = {name: _cost(words, folder) for name, words in commands.items()}
    return {"rows": rows, **measured}


_MEASURE = """
import os, subprocess, sys
started = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, usage = os.wait4(started.pid, 0)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
"""Started from a small process, because the peak of a child includes the memory of its parent."""


def _cost(words: list[str], folder: str) -> dict[str, float]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SRNET_STORE": str(Path(folder) / "store")}
    command = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "srnet", *words]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    seconds, kibibytes = map(float, ran.stdout.split())
    return {"cpu_seconds": round(seconds, 1), "peak_mib": int(kibibytes) // 1024}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="a .tsv file with a header, instead of generated text")
    parser.add_argument("--columns", default="premise,hypothesis", help="the names of its two columns of text")
    parser.add_argument("--vectors", help="a file of word vectors, instead of random ones")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the csv file that the commands are run on")
    options = parser.parse_args()
    text_a, text_b = generated() if options.pairs is None else from_file(options.pairs, options.columns)
    vocabulary = tokenise([*text_a, *text_b]).vocabulary
    vectors = vectors_for(vocabulary, options.vectors)
    loop = Loop(vocabulary, vectors.unit(vocabulary))
    largest = float(np.abs(loop(text_a, text_b) - overlap_features(text_a, text_b, vectors)).max())

    # the loop is "ours" in the arithmetic, so that the ratio reads as a speed-up
    name = f"overlap features of {len(text_a):,} pairs, speed-up over a loop"
    ratio = compare(
        name, lambda: loop(text_a, text_b), lambda: overlap_features(text_a, text_b, vectors), ">= 20.0", rounds=7
    )
    text = "generated" if options.pairs is None else options.pairs.name
    results: dict[str, Any] = {"text": text, **asdict(ratio), "met": ratio.met, "threads": torch.get_num_threads()}
    results |= {"largest_difference": largest, "words": len(vocabulary), "dimensions": vectors.dim}
    results["pairs_per_second"] = {
        "vectorised": 1000 * len(text_a) / ratio.theirs_ms,
        "loop": 1000 * len(text_a) / ratio.ours_ms,
    }
    for times in (1, 4):
        results[f"peak_bytes_{times * len(text_a)}"] = memory(text_a * times, text_b * times, vectors)
    results["large_file"] = large_file(options.rows)
    report(Console(), results)
    write_json(Path(__file__).parent / "features.json", results)


def report(console: Console, results: dict[str, Any]) -> None:
    pace = results["pairs_per_second"]
    console.print(
        f"{results['name']}: {results['ratio']:.1f} (quartiles {results['low']:.1f} to {results['high']:.1f}, target "
        f"{results['target']}); {pace['vectorised']:,.0f} against {pace['loop']:,.0f} pairs a second on "
        f"{results['threads']} threads; largest difference {results['largest_difference']:.1e}"
    )
    large = results["large_file"]
    for name in ("data_check", "bias"):
        cost = large[name]
        console.print(
            f"{name} of {large['rows']:,} rows: {cost['cpu_seconds']} s of CPU, at most {cost['peak_mib']:,} MiB"
        )
    for key, value in results.items():
        if key.startswith("peak_bytes_"):
            pairs = int(key.removeprefix("peak_bytes_"))
            console.print(f"{pairs:,} pairs: at most {value / 2**20:.1f} MiB beyond the features")


if __name__ == "__main__":
    main()
