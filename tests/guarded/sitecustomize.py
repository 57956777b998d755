"""Imported by every Python process that has this folder in PYTHONPATH, also by child processes.

If GUARDED names a folder, a process may write only below it, not below its `home`, and may not use the network. What it
tries is refused and written to `refused` there, because libraries hide such errors. LOOPBACK=1 allows this machine.
"""

from __future__ import annotations

import os
import sys
from typing import Any

LOOKUPS = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")
CONTACTS = ("socket.bind", "socket.connect", "socket.sendto", "socket.sendmsg")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
HERE = ("127.0.0.1", "::1", "localhost")


def watch(event: str, args: tuple[Any, ...]) -> None:
    if "GUARDED" not in os.environ:
        return
    if event in LOOKUPS or (event in CONTACTS and isinstance(args[1], tuple)):
        host = str(args[0] if event in LOOKUPS else args[1][0])
        if "LOOPBACK" not in os.environ or host not in HERE:
            refuse(event, host)
    elif event == "os.mkdir" or (event == "open" and args[2] & WRITES):
        check(args[0])
    elif event == "os.rename":
        check(args[1])


def check(place: Any) -> None:
    root = os.environ["GUARDED"]
    path = os.path.realpath(os.fsdecode(place)) if isinstance(place, str | bytes) else os.devnull
    inside = path.startswith(f"{root}/") and not path.startswith(f"{root}/home/")
    if not inside and not path.startswith("/dev/") and "__pycache__" not in path:
        refuse("write", path)


def refuse(what: str, place: str) -> None:
    with open(f"{os.environ['GUARDED']}/refused", "a") as file:
        file.write(f"{what} {place}\n")
    raise PermissionError(f"a test forbids: {what} {place}")


sys.addaudithook(watch)
