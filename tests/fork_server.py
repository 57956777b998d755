"""Imports modules once and forks the command line for each connection to a socket: no time for imports.

python fork_server.py serve SOCKET MODULE ...   imports the modules and serves until its standard input ends
python fork_server.py call SOCKET ...           is `srnet ...`, run by the server
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any

LONGEST_ORDER = 1 << 20


def serve(path: str, *modules: str) -> None:
    import gc
    import selectors
    from importlib import import_module

    for name in modules:
        import_module(name)
    gc.freeze()  # see tests/conftest.py
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite started in the background ignores Ctrl-C
    default = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that no child stays a zombie
    started: list[int] = []
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as selector:
        listener.bind(f"{path}.new")
        listener.listen()
        os.rename(f"{path}.new", path)  # whoever sees it can connect
        for source in (listener, sys.stdin):
            selector.register(source, selectors.EVENT_READ)
        while all(key.fileobj is listener for key, _ in selector.select()):
            connection, _ = listener.accept()
            data, descriptors, *_ = socket.recv_fds(connection, LONGEST_ORDER, 3)
            pid = os.fork()
            if pid == 0:
                signal.signal(signal.SIGCHLD, default)
                run(connection, descriptors, **json.loads(data))
            started.append(pid)
            for descriptor in (connection.detach(), *descriptors):
                os.close(descriptor)
    for pid in started:  # a test failed and left it behind
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def run(connection: socket.socket, streams: list[int], words: list[str], folder: str, env: Any) -> None:
    """The command, in the forked process. The end of the connection is the end of the process."""
    os.setsid()  # Ctrl-C reaches a whole group; this is one
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    if not streams:
        streams = [os.open(os.devnull, os.O_RDONLY)]
        streams += [os.open(f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for name in ("stdout", "stderr")]
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    sys.stdout, sys.stderr = (open(number, "w", 1, closefd=False) for number in (1, 2))  # noqa: SIM115  what they are now
    connection.sendall(f"{os.getpid()}\n".encode())
    sys.argv = ["srnet", *words]
    code: Any = 1
    try:
        from srnet.__main__ import main

        main()
    except SystemExit as exit:
        code = exit.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    connection.sendall(f"{code}\n".encode())
    os._exit(code)


def connect(path: str, words: list[str], folder: str, env: dict[str, str], streams: tuple[int, ...] = ()) -> Any:
    """A connection from which the process id is read, then the exit code. A process that is killed sends no code."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    order = json.dumps({"words": words, "folder": folder, "env": env}).encode()
    assert len(order) < LONGEST_ORDER
    socket.send_fds(connection, [order], streams)
    return connection


def call(path: str, *words: str) -> None:
    with connect(path, list(words), os.getcwd(), dict(os.environ), (0, 1, 2)).makefile() as answers:
        _, code = answers.read().split()
    sys.exit(int(code))


if __name__ == "__main__":
    sys.path.remove(str(Path(__file__).parent))  # its names are none of srnet's business
    {"serve": serve, "call": call}[sys.argv[1]](*sys.argv[2:])
