"""`python -m benchmarks.dial`: what the embedded benchmark asks of its backbone, as two tables.

First, that every relation can be learned: trained without noise and with cues that say nothing, the backbone must be
right nearly everywhere. Then, how close full models with CE and with PoE come to theory, as the noise varies.
"""

from __future__ import annotations

from srnet.core.files import read_json
from srnet.core.names import EMBEDDED
from srnet.experiment.engine import Engine
from srnet.experiment.nodes.bias import BiasSpec
from srnet.experiment.nodes.models import Evaluate, Pretrained
from srnet.experiment.nodes.objectives import Objective
from srnet.experiment.nodes.training import FineTune
from srnet.objectives.base import parse_objective
from srnet.recipes.profiles import FINETUNING
from srnet.tasks.synthetic import SyntheticTask
from srnet.tasks.synthetic.families import EMBEDDED_TASKS

NOISE = (0.03, 0.06, 0.12)


def trained(task: SyntheticTask, objective: str) -> Evaluate:
    bias = BiasSpec().node(task, EMBEDDED) if "bias" in parse_objective(objective)[0].needs else None
    return Evaluate(FineTune(Pretrained(EMBEDDED, task, 0), Objective(objective, bias), FINETUNING))


def scores(engine: Engine, node: Evaluate) -> dict[str, dict[str, dict[str, float]]]:
    splits: dict[str, dict[str, dict[str, float]]] = read_json(engine.store.path(node.key) / "scores.json")["splits"]
    return splits


def learnable(engine: Engine) -> None:
    nodes = {name: trained(SyntheticTask(name, noise=0.0, strengths=(0.0, 0.0, 0.0)), "ce") for name in EMBEDDED_TASKS}
    engine.execute(nodes.values())
    print("| task | ID dev | OOD challenge | worst sub-case |\n|---|---|---|---|")
    for name, node in nodes.items():
        found = scores(engine, node)
        groups = {f"{split}: {g}": v for split, s in found.items() for g, v in s["groups"].items()}
        worst = min(groups, key=lambda group: groups[group])
        figures = " | ".join(f"{found[split]['metrics']['accuracy']:.1f}" for split in ("dev", "challenge"))
        print(f"| {name} | {figures} | {groups[worst]:.1f} ({worst}) |")


def dial(engine: Engine) -> None:
    tasks = [SyntheticTask(noise=noise) for noise in NOISE]
    nodes = {(task, objective): trained(task, objective) for task in tasks for objective in ("ce", "poe")}
    engine.execute(nodes.values())
    print("\n| noise | theory: CE-optimal | CE | theory: ideal debiased | PoE |\n|---|---|---|---|---|")
    for task in tasks:
        cells = []
        for objective, theory in zip(("ce", "poe"), task.cues.theory().values(), strict=True):
            found = scores(engine, nodes[task, objective])
            measured = (found[split]["metrics"]["accuracy"] for split in ("dev", "challenge"))
            cells += [" / ".join(f"{each:.1f}" for each in side) for side in (theory, measured)]
        print(f"| {task.noise:g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    runner = Engine()
    learnable(runner)
    dial(runner)
