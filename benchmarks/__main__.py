"""`make bench`: prints a table and writes benchmarks/results.json."""

from __future__ import annotations

import platform
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.cases import CASES
from srnet import __version__
from srnet.core.files import write_json


def main() -> None:
    table = Table(title=f"srnet {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in ("case", "ratio", "quartiles", "target", "met"):
        table.add_column(name, justify="left" if name == "case" else "right")
    ratios = []
    console = Console()
    with console.status("measuring"):
        for case in CASES:
            for ratio in case():
                ratios.append(ratio)
                quartiles = f"{ratio.low:.3f} to {ratio.high:.3f}"
                table.add_row(ratio.name, f"{ratio.ratio:.3f}", quartiles, ratio.target, "yes" if ratio.met else "NO")
                console.log(f"{ratio.name}: {ratio.ratio:.3f}")
    console.print(table)
    machine = {"processor": platform.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    results = [{**asdict(ratio), "met": ratio.met} for ratio in ratios]
    write_json(Path(__file__).parent / "results.json", {"machine": machine, "srnet": __version__, "ratios": results})


if __name__ == "__main__":
    main()
