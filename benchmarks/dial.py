"""`python -m benchmarks.dial`: what the embedded benchmark asks of its backbone, as the tables in docs/benchmark.md.

First, that every task can be learned: trained without bias, the backbone must be right everywhere. Then, how far the
full model is fooled as the shortcut gets stronger.
"""

from __future__ import annotations

from dataclasses import replace

from srnet.evaluation import accuracy
from srnet.experiment import BiasSpec, Engine, Evaluate, FineTune, Objective, Pretrained
from srnet.experiment.compute import load_logits
from srnet.files import read_json
from srnet.names import EMBEDDED
from srnet.objectives import get_objective
from srnet.recipes.toy import FINETUNING
from srnet.tasks.synthetic import FAMILIES, SyntheticTask

UNBIASED = {"inference": 0.5, "paraphrase": 0.5, "verification": 1 / 3}
"""The dial at which the shortcut says nothing: as often right as chance."""
DIAL = (0.5, 0.7, 0.8, 0.9, 0.95, 0.99)


def trained(task: SyntheticTask, objective: str, steps: int | None = None) -> Evaluate:
    bias = BiasSpec().node(task, EMBEDDED) if get_objective(objective).needs_bias else None
    settings = FINETUNING if steps is None else replace(FINETUNING, steps=steps, eval_every=steps // 8)
    return Evaluate(FineTune(Pretrained(EMBEDDED, task, 0), Objective(objective, bias), settings))


def learnable(engine: Engine) -> None:
    nodes = {name: trained(SyntheticTask(name, bias=UNBIASED[name]), "ce", steps=1600) for name in FAMILIES}
    engine.execute(nodes.values())
    print("| task | ID dev | OOD challenge | worst sub-case |\n|---|---|---|---|")
    for name, node in nodes.items():
        scores = read_json(engine.store.path(node.key) / "scores.json")["splits"]
        groups = {f"{split}: {g}": v for split, s in scores.items() for g, v in s["groups"].items()}
        worst = min(groups, key=lambda group: groups[group])
        figures = " | ".join(f"{scores[split]['metrics']['accuracy']:.1f}" for split in ("dev", "challenge"))
        print(f"| {name} | {figures} | {groups[worst]:.1f} ({worst}) |")


def dial(engine: Engine) -> None:
    nodes = {(b, o): trained(SyntheticTask(bias=b), o) for b in DIAL for o in ("ce", "poe")}
    engine.execute(nodes.values())
    print("\n| bias | CE: ID | CE: OOD | PoE: ID | PoE: OOD |\n|---|---|---|---|---|")
    for bias in DIAL:
        figures = []
        for objective in ("ce", "poe"):
            node = nodes[bias, objective]
            task = node.model.task_spec.load()
            logits = load_logits(engine.store, node)
            figures += [100 * accuracy(logits[s].argmax(axis=1), task.splits[s].labels) for s in ("dev", "challenge")]
        print(f"| {bias:g} | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


if __name__ == "__main__":
    runner = Engine()
    learnable(runner)
    dial(runner)
