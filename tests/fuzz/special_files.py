"""The door to what looks like a file: pipes, sockets, devices and folders."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from pathlib import Path

from .harness import Command
from .valid import VALID

DEVICES = ("/dev/zero", "/dev/null", "/dev/full", "/dev/urandom", "/dev/stdin", "/dev/tty")
PLACES = ("absent", "/", "/proc/self/mem", "/proc/self/fd/0", "task.yaml")
OF_MODELS = ("adapter_config.json", "generation_config.json", "model.onnx", "srnet.json", "README.md", "more")
"""Files that the folder of a model may have."""


def special_files(rng: random.Random, folder: Path) -> Command:
    """Something else in the place of a file, wherever a command reads one."""
    without_files = ("page", "memory")
    command = rng.choice([make for door, makes in VALID.items() for make in makes if door not in without_files])(folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    folders = [path for path in folder.iterdir() if path.name in ("model", "subnetwork")]
    files += [path / name for path in folders for name in OF_MODELS]
    if rng.random() < 0.95:
        _replace(rng, rng.choice(files))
    return command


def _replace(rng: random.Random, path: Path) -> None:
    path.unlink(missing_ok=True)
    kinds = [
        os.mkfifo,
        _listen,
        Path.mkdir,
        lambda path: path.symlink_to(rng.choice(DEVICES)),
        lambda path: path.symlink_to(rng.choice([*PLACES, path])),
    ]
    rng.choice(kinds)(path)


def _listen(path: Path) -> None:
    """A socket. Their names may have 107 bytes at most, so it gets a relative one."""
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
