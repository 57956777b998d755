"""Exported models against full models of the same seeds: `python examples/compare_exports.py FULL_KEY=FOLDER ...`.

Prints the scores on every ID and OOD split with their standard deviation over seeds, 95 % intervals of the difference,
and the verdict, for the exported models. The task is that of the first key.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np

from srnet import Store
from srnet.core.errors import UserError
from srnet.evaluation.evidence import Evidence
from srnet.evaluation.significance import spread
from srnet.experiment.nodes.base import load_task
from srnet.experiment.rebuild import StoredModels
from srnet.models.open import open_classifier


@dataclass(frozen=True)
class Model:
    """A key of the store, or a folder."""

    key: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", metavar="FULL_KEY=FOLDER")
    parser.add_argument("--store", default=None)
    options = parser.parse_args()
    store = StoredModels(Store(options.store) if options.store else Store())
    pairs = [pair.partition("=")[::2] for pair in options.pairs]
    if not all(key and folder for key, folder in pairs):
        raise UserError("each pair is FULL_KEY=FOLDER, one for each seed", "write each as KEY=FOLDER")
    full_models = [store.find(key) for key, _ in pairs]
    if len({model.key for model in full_models}) < len(pairs):
        raise UserError("a full model is given twice", "give a full model of another seed in each pair")
    task = load_task(full_models[0].task_spec)
    splits = {name: task.splits[name] for name in task.scored}

    def answers(name: str) -> dict[str, np.ndarray]:
        model = open_classifier(name, store, task=task)
        logits = {split: model.logits(each.text_a, each.text_b) for split, each in splits.items()}
        return {split: task.answer_kind.decode(each, logits[split]) for split, each in splits.items()}

    evidence = Evidence[Model](task, lambda model: answers(model.key))
    full, small = ([Model(name) for name in side] for side in zip(*pairs, strict=True))
    for name, split in splits.items():
        scores = [spread(evidence.scores(side, name)) for side in (full, small)]
        difference = evidence.difference(small, full, name)
        print(f"{split.kind} {name}, {task.metric}: full {scores[0]}, deployed {scores[1]}; {difference}")
    print(f"Sparse and robust: {evidence.verdict(small, full)}")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(f"compare_exports: {error}")
