"""Files: atomic writing, so that a reader sees a complete file or folder, or none; checks before one is read."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from srnet.core.errors import UserError

_EXPLAINED = {
    errno.ENOSPC: ("no space left", "free some space or choose another folder"),
    errno.EDQUOT: ("disk quota exceeded", "free some space or choose another folder"),
    errno.EROFS: ("read-only file system", "choose a folder you can write to"),
    errno.EACCES: ("permission denied", "choose a folder you can write to"),
    errno.EPERM: ("operation not permitted", "choose a folder you can write to"),
    errno.ENOENT: ("no such folder", "choose a folder that can be made"),
    errno.ENOTDIR: ("there is a file where a folder is needed", "choose another folder"),
    errno.EEXIST: ("there is a file where a folder is needed", "choose another folder"),
    errno.EISDIR: ("there is a folder where a file is needed", "choose another name"),
    errno.ENAMETOOLONG: ("its name is too long", "choose a shorter one"),
    errno.ELOOP: ("its symbolic links form a loop", "choose another folder"),
    errno.EFBIG: ("the file is too large", "choose another folder, or raise the limit"),
    errno.EIO: ("the disk reports an error", "choose a folder on another disk"),
}
_OF_READING = (errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)
"""What opening a file to read it raises as well."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that a spreadsheet runs; the last four are the full-width forms."""
_OF_MODELS = {".json", ".jsonl", ".safetensors", ".txt", ".model", ".jinja", ".onnx", ".data", ".bits", ".coded"}
"""Endings of the files that readers of models open; others in the same folder do not matter."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def _umask() -> int:
    """The process's umask, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


UMASK = _umask()
"""At program start. Temporary files are private; the final files get the ordinary permissions."""


_STAGING = (".new-", ".old-", ".probe-")
"""How the names of temporary folders begin."""


class DiskFull(UserError):
    """No space is left, so that further attempts will fail as well."""


def explained(error: Exception, path: Path | str) -> UserError | None:
    """The user's version of a file-system error, if the user can correct it."""
    number = _errno(error)
    if number not in _EXPLAINED or _is_staged(Path(path)):  # the folder that is staged explains it by its own name
        return None
    problem, fix = _EXPLAINED[number]
    kind = DiskFull if number in (errno.ENOSPC, errno.EDQUOT) else UserError
    named = Path(_named(error) or path)
    is_temporary = named.name.startswith(".") or _is_staged(named)
    if number in _OF_READING and not is_temporary and not _is_part(named, Path(path)):
        return UserError(f"cannot open {named}: {os.strerror(number)}", "check its path and permissions")
    return kind(f"cannot write {path if is_temporary else named}: {problem}", fix)


def _is_part(named: Path, target: Path) -> bool:
    """Whether an error about `named` concerns what is written to `target`: that, a part of it, or where it lies."""
    one, other = named.absolute(), target.absolute()
    return one.is_relative_to(other) or other.is_relative_to(one)


def _is_staged(path: Path) -> bool:
    return any(part.startswith(_STAGING) for part in path.parts)


def _errno(error: Exception) -> int | None:
    """safetensors and tokenizers raise exceptions of their own, which end in "(os error 28)"; pathlib has one, too."""
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, RuntimeError) and "Symlink loop" in str(error):  # of Path.resolve
        return errno.ELOOP
    said = re.search(r"\(os error (\d+)\)", str(error)) if not isinstance(error, UserError) else None
    return int(said[1]) if said else None


def _named(error: Exception) -> str | None:
    """The file that an error is about, if it says so."""
    loop = re.fullmatch("Symlink loop from '(.+)'", str(error), re.DOTALL)
    return loop[1] if loop else getattr(error, "filename", None)


@contextmanager
def writing(path: Path | str) -> Iterator[None]:
    """Turn a full or read-only disk into one line for the user."""
    try:
        yield
    except Exception as error:
        known = explained(error, path)
        if known is None:
            raise
        raise known from error


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file in one step: a reader sees the old content or the new, also after a kill."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        try:
            with _unnamed_file(temporary) as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o666 & ~UMASK)
                _give_name(file.fileno(), temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _sync(path.parent)


def _unnamed_file(temporary: Path) -> IO[bytes]:
    """A file without a name, of which a kill leaves nothing. Where the system has none, it is named `temporary`."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):  # NFS has none; any other problem shows below
            return os.fdopen(os.open(temporary.parent, os.O_TMPFILE | os.O_WRONLY, 0o600), "wb")
    return open(temporary, "xb")


def _give_name(descriptor: int, path: Path) -> None:
    if os.fstat(descriptor).st_nlink == 0:
        try:  # with a folder's descriptor, because without it Python links the link in /proc itself
            os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, sort_keys=True) + "\n")


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a csv file for people: text that a spreadsheet would run as a formula gets a quote in front (OWASP).

    Numbers stay numbers. Files that srnet reads again (`srnet data write`) are exact instead.
    """
    is_formula = isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value)
    return f"'{value}" if is_formula else value


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read as JSON: {error}") from error


FieldType = type | tuple[type, ...] | Callable[[Any], bool]
"""What a field of a JSON object may be: a type, one of several, or a rule."""


def read_json_object(path: Path, **needed: FieldType) -> dict[str, Any]:
    """A JSON object that has the keys `needed`, each of the given type."""
    found = read_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} is not a JSON object", "restore the file")
    check_types(path, found, **needed)
    return found


def check_types(path: Path, values: dict[str, Any], **needed: FieldType) -> None:
    """Refuse a JSON object in which a field is missing or has another type or value than its rule allows."""
    for key, kind in needed.items():
        if key not in values or not _fits(values[key], kind):
            raise UserError(f"{path}: '{key}' is missing or invalid", "restore the file")


def _fits(value: Any, kind: FieldType) -> bool:
    return isinstance(value, kind) if isinstance(kind, type | tuple) else kind(value)


def open_data(path: Path | str) -> IO[bytes]:
    """A file of data, as it is or, with the ending .gz, decompressed."""
    require_readable(Path(path))
    return gzip.open(path) if str(path).endswith(".gz") else open(path, "rb")  # type: ignore[return-value]


def open_file(path: Path | str) -> BufferedReader:
    """A file, to be read. Every file that is read is opened here, or was given to `require_readable`."""
    require_readable(Path(path))
    return open(path, "rb")


def read_bytes(path: Path) -> bytes:
    with open_file(path) as file:
        return file.read()


def require_readable(path: Path) -> None:
    """Refuse a pipe or a socket, for which a reader may wait forever, a device, which may have no end, and a folder.

    What does not exist is left to the reader, which knows what it needs the file for.
    """
    if path.is_dir():
        raise UserError(f"{path} is a folder", "give a file")
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is a pipe or a device", "give a file")
    if path.exists() and not os.access(path, os.R_OK):
        raise _unreadable(path)


def require_readable_in(folder: Path) -> None:
    """The same for the files of a model in a folder, before a library opens what it finds there."""
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        raise _unreadable(folder)
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.suffix in _OF_MODELS and not path.is_dir():
            require_readable(path)


def _unreadable(path: Path) -> UserError:
    return UserError(f"{path} may not be read", "change its permissions")


def require_new(folder: Path) -> Path:
    """`folder` if it is new or empty and can be written, else an error: before anything is computed for it."""
    with writing(folder):
        is_used = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
        if folder.resolve() == Path.cwd() or is_used or folder.is_symlink():
            raise _exists(folder)
    require_writable(folder)
    return folder


def require_writable(folder: Path, *files: str) -> None:
    """Refuse a folder for results that is a file or that cannot be written, or in which one of `files` is a folder.

    It is called before anything is computed for that folder.
    """
    with writing(folder):
        if folder.exists() and not folder.is_dir():
            raise UserError(f"{folder} is a file", "choose another folder for the results")
        above = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
        os.rmdir(tempfile.mkdtemp(dir=above, prefix=".probe-"))
        for name in files:
            if (folder / name).is_dir():
                raise UserError(f"{folder / name} is a folder", "choose another folder for the results")


def _exists(folder: Path) -> UserError:
    return UserError(f"{folder} exists already", "choose a new folder")


@contextmanager
def new_folder(target: Path, *, replace: bool = False) -> Iterator[Path]:
    """A staging folder beside `target` that becomes it in one rename when the block succeeds.

    A folder that is there by then, and that is not empty, is an error: another process may have written it. With
    `replace` it is removed. If the block fails, it is unchanged.
    """
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".new-{target.name}-"))
        try:
            yield staging
            staging.chmod(0o777 & ~UMASK)
            for path in staging.rglob("*"):
                path.chmod((0o777 if path.is_dir() else 0o666) & ~UMASK)
                _sync(path)
            if replace:
                _swap(staging, target)
            else:
                _move(staging, target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def recover_folder(target: Path) -> None:
    """Undo the first half of a replacement that was killed before the second, and remove what the kill left."""
    for old in target.parent.glob(f".old-{target.name}-*"):
        if not target.exists() and (old / target.name).exists():
            os.rename(old / target.name, target)
    remove_leftovers(target.parent, target.name)


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove staging folders of killed processes. Only for a folder that no other process writes to."""
    for kind in ("new", "old"):
        for path in folder.glob(f".{kind}-{name}*"):
            shutil.rmtree(path, ignore_errors=True)


def _move(staging: Path, target: Path) -> None:
    try:
        with suppress(FileNotFoundError):
            os.rmdir(target)  # an empty one
        os.rename(staging, target)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
        raise _exists(target) from error
    _sync(target.parent)


def _swap(staging: Path, target: Path) -> None:
    old = None
    if target.exists():
        old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".old-{target.name}-"))
        os.rename(target, old / target.name)
    os.rename(staging, target)
    _sync(target.parent)
    if old is not None:
        shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sha256(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def content_hash(path: Path) -> str:
    """The same, computed once for each state of the file: keys are made often, and word vectors have gigabytes."""
    require_readable(path)
    if not path.is_file():
        raise UserError(f"{path} does not exist", "check the path")
    found = path.stat()
    return _hash_of_state(path, (found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino))


@lru_cache(maxsize=64)
def _hash_of_state(path: Path, state: tuple[int, ...]) -> str:
    return sha256(path)
