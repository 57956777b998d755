"""Coded masks and the bank of masks, of BERT-base's shapes with random weights: also in benchmarks/coding.json.

python -m benchmarks.coding
"""

from __future__ import annotations

import gc
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from transformers import BertTokenizerFast

from benchmarks.models import bert
from srnet import __version__
from srnet.core.files import write_json
from srnet.core.names import EMBEDDED
from srnet.masks.coding import _entropy, decode_mask, encode_mask
from srnet.masks.mask import Mask
from srnet.masks.parametrization import raw_weights
from srnet.masks.targets import LAYERS
from srnet.models.backbones import LoadedBackbone, load_backbone
from srnet.models.bank import MaskBank
from srnet.models.subnetwork import Subnetwork

LABELS = ("no", "yes")
TASKS = 10


@dataclass(frozen=True)
class Measured:
    name: str
    value: float
    unit: str
    most: float | None = None
    """What it may be at most."""

    @property
    def met(self) -> str:
        return "" if self.most is None else "yes" if self.value <= self.most else "NO"


def backbone(folder: Path) -> LoadedBackbone:
    """A BERT-base that nobody has trained."""
    bert(layers=12, hidden=768).save_pretrained(folder)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{number}" for number in range(30517))]
    BertTokenizerFast(vocab={word: number for number, word in enumerate(words)}).save_pretrained(folder)
    return load_backbone(str(folder), LABELS, seed=0)


def masks(weights: dict[str, torch.Tensor]) -> Iterator[tuple[str, Mask, float, float | None]]:
    """A name, the mask, its entropy in bits, and by which factor its file may be larger."""
    generator = torch.Generator().manual_seed(0)

    def chosen(share: float) -> dict[str, torch.Tensor]:
        return {name: torch.rand(weight.shape, generator=generator) < share for name, weight in weights.items()}

    for share in (0.5, 0.1):
        mask = Mask(chosen(share))
        bits = sum(_entropy(keep.numel(), int(keep.sum())) for keep in mask.values())
        yield f"random, {share:.0%} kept", mask, bits, 1.001
    flips = chosen(0.04)
    largest = {name: weight.abs() > weight.abs().median() for name, weight in weights.items()}
    flipped = Mask({name: keep ^ flips[name] for name, keep in largest.items()})
    yield "by magnitude, 4 % flipped", flipped, flipped.total * _entropy(100, 4) / 100, None


def both_clocks(function: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of the processor: on a busy machine the first is longer."""
    start, started = time.perf_counter(), time.process_time()
    function()
    return time.perf_counter() - start, time.process_time() - started


def coding(base: LoadedBackbone) -> Iterator[Measured]:
    weights = raw_weights(LAYERS.find(base.model))
    for name, mask, bits, most in masks(weights):
        data = encode_mask(mask, weights, base.sha256)
        yield Measured(f"mask {name}: file", 8 * len(data) / mask.total, "bits a weight")
        yield Measured(f"mask {name}: file / entropy", 8 * len(data) / bits, "x", most)
        wall, processor = both_clocks(lambda d=data: decode_mask(d, weights, base.sha256))  # type: ignore[misc]
        yield Measured(f"mask {name}: decoding", wall, "s", 5.0)
        yield Measured(f"mask {name}: decoding, processor time", processor, "s")


# --- the bank ------------------------------------------------------------------------------------------------------


def status(field: str) -> float:
    """Megabytes of memory that the process has (VmRSS), or had at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def write_tasks(base: LoadedBackbone, folder: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    weights, state = raw_weights(LAYERS.find(base.model)), base.model.state_dict()
    for number in range(2):  # the others are the same as these two: the bank does not know
        keep = {name: torch.rand(weight.shape, generator=generator) < 0.5 for name, weight in weights.items()}
        Subnetwork.of(base, LABELS, state, Mask(keep)).save_coded(folder / str(number), base)


def bank_of_raw_masks(folder: Path) -> list[Measured]:
    """In a process of its own, whose memory is the bank's."""
    load_backbone(EMBEDDED, LABELS, seed=0)  # imports what loading a model imports
    gc.collect()
    before = status("VmRSS")
    alone = load_backbone(str(folder / "backbone"), LABELS, seed=0)
    model = status("VmRSS") - before
    del alone
    bank = MaskBank(str(folder / "backbone"))
    for number in range(TASKS):
        bank.add(str(number), folder / str(number % 2))
    times = [both_clocks(lambda n=n: bank.use(str(n % TASKS))) for n in range(3 * TASKS)]  # type: ignore[misc]
    wall, processor = zip(*times, strict=True)
    gc.collect()
    name = f"bank of {TASKS} raw masks"
    return [
        Measured(f"{name}: memory / model", (status("VmRSS") - before) / model, "x", 1.3),
        Measured(f"{name}: peak while adding / model", (status("VmHWM") - before) / model, "x"),
        Measured(f"{name}: switching", statistics.median(wall), "s", 0.3),
        Measured(f"{name}: switching, processor time", statistics.median(processor), "s"),
        Measured(f"{name}: slowest switch", max(wall), "s"),
    ]


def in_own_process(folder: Path) -> Iterator[Measured]:
    write_tasks(load_backbone(str(folder / "backbone"), LABELS, seed=0), folder)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        yield from pool.submit(bank_of_raw_masks, folder).result()


def main() -> None:
    console = Console()
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory() as temporary, console.status("measuring"):
        folder = Path(temporary)
        backbone(folder / "backbone")
        for case in (
            lambda: coding(load_backbone(str(folder / "backbone"), LABELS, seed=0)),
            lambda: in_own_process(folder),
        ):
            for each in case():
                measured.append(each)
                console.log(f"{each.name}: {each.value:.4f} {each.unit}")
    table = Table(title=f"srnet {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    for name in ("case", "value", "unit", "at most", "met"):
        table.add_column(name)
    for each in measured:
        table.add_row(each.name, f"{each.value:.4f}", each.unit, "" if each.most is None else str(each.most), each.met)
    console.print(table)
    machine = {"processor": platform.machine(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    results = [asdict(each) for each in measured]
    write_json(Path(__file__).parent / "coding.json", {"machine": machine, "srnet": __version__, "measured": results})


if __name__ == "__main__":
    main()
