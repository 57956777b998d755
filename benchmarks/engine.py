"""What the engines cost and gain: `python -m benchmarks.engine [--scale 0.1]`, also in benchmarks/engine.json.

Overhead: a grid of 100 nodes that do nothing. Gain: figure 2, shortened, by a pool of two workers against one process
with the same cores. Two workers with one thread each can only be faster as far as two threads are not twice as fast as
one, so that ceiling is measured beside it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from srnet.core.files import write_json, write_text
from srnet.core.progress import Reporter
from srnet.experiment.compute import Context, compute
from srnet.experiment.engine import Engine, _cores
from srnet.experiment.estimate import _measure_step
from srnet.experiment.nodes.base import Node
from srnet.experiment.store import Store
from srnet.recipes.order import Order

NODES = 100


@dataclass(frozen=True)
class Trivial(Node):
    number: int
    before: tuple[Trivial, ...] = ()

    @property
    def parents(self) -> tuple[Node, ...]:
        return self.before


@compute.register
def _(node: Trivial, context: Context, folder: Path) -> None:
    write_text(folder / "nothing.txt", str(node.number))


def overhead(folder: Path) -> float:
    """Seconds for NODES nodes beyond the nodes themselves: ten roots, and nine that need each of them."""
    roots = [Trivial(number) for number in range(10)]
    leaves = [Trivial(10 * (1 + i) + number, (root,)) for number, root in enumerate(roots) for i in range(9)]
    engine = Engine(Store(folder / "trivial"), Reporter(quiet=True))
    engine.store.open()
    started = time.perf_counter()
    for number in range(NODES):
        write_text(folder / "alone" / f"{number}.txt", str(number))
    alone = time.perf_counter() - started
    started = time.perf_counter()
    engine.execute([*roots, *leaves])
    return time.perf_counter() - started - alone


def ceiling(order: Order) -> float:
    """How much faster two workers of one thread could be than one with two, if nothing else cost anything."""
    profile = order.recipes()[0].profile
    pace = {}
    for threads in (1, _cores()):
        torch.set_num_threads(threads)
        pace[threads] = min(_measure_step(profile.raw(0), profile.pruning) for _ in range(3))
    return 2.0 * pace[_cores()] / pace[1]


def seconds(order: Order, folder: Path, name: str) -> float:
    workers = 2 if name == "pool" else None
    nodes = [node for recipe in order.recipes() for node in recipe.nodes()]
    started = time.perf_counter()
    Engine(Store(folder / name), Reporter(quiet=True), name=name, workers=workers).execute(nodes)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="length of the trainings, 1 for figure 2 as it is")
    order = Order(("fig2",), tasks=("inference",), scale=parser.parse_args().scale)
    console = Console()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results: dict[str, Any] = {"nodes": NODES, "overhead_seconds": overhead(folder)}
        console.print(f"{NODES} trivial nodes: {results['overhead_seconds']:.2f} s beyond the nodes (target <= 5)")
        results |= {"scale": order.scale, "cores": _cores(), "ceiling": ceiling(order)}
        for engine in ("local", "pool"):
            results[f"{engine}_seconds"] = seconds(order, folder, engine)
        results["speed_up"] = results["local_seconds"] / results["pool_seconds"]
    console.print(
        f"fig2 at scale {order.scale:g}: local {results['local_seconds']:.0f} s, pool of 2 "
        f"{results['pool_seconds']:.0f} s, speed-up {results['speed_up']:.2f} (target >= 1.4); two single-threaded "
        f"workers could at best be {results['ceiling']:.2f} times as fast as one process with {_cores()} threads"
    )
    write_json(Path(__file__).parent / "engine.json", results)


if __name__ == "__main__":
    main()
