"""The disk cache of compiled programs: content-addressed, checked on a hit, bounded in size.

An entry is a directory ``<sha256 of the key>`` that holds the key's source text, a JSON record
(sizes and hashes of the files, compiler, flags) and the compiled files.  It appears by one rename,
so readers see all of it or nothing.  Nothing is ever unpickled.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from polyloop.edge.files import plain_content
from polyloop.errors import CompilerError, Diagnostic

if sys.platform != "win32":
    import fcntl

__all__ = ["CacheEntry", "CacheKey", "CacheProblem", "DiskCache", "default_directory", "open_cache"]

_RECORD: Final = "record.json"
_SOURCE: Final = "source.txt"
_FORMAT: Final = 1
DEFAULT_LIMIT: Final = 512 * 1024 * 1024
_RECORD_LIMIT: Final = 2**20  # of the record of an entry [bytes]
_SOURCE_LIMIT: Final = 2**28  # of a source text [bytes]
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ABANDONED_AFTER: Final = 3600.0  # seconds until an unfinished entry of another process is litter
_PARTS: Final = 32  # of the limit: one of them is made free when it is reached
_SIZE: Final = ".size"  # the file with the bytes of all entries, and when they were added up
_COUNTED_FOR: Final = 86400.0  # seconds until all entries are looked at again: some may have come or gone by hand
_COUNT: Final = re.compile(rb"(\d{12}) (\d{20})\n")


@dataclass(frozen=True, slots=True)
class CacheKey:
    """Key of a compiled program: all inputs of its compilation.

    Attributes
    ----------
    kind
        ``"c"``, ``"cuda"``, ``"fibres"``.
    compiler
        Identity and version of the compiler, and of the processor where the flags depend on it.
    """

    kind: str
    source: str
    compiler: str
    flags: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """Name of the entry: the SHA-256 of all fields."""
        text = json.dumps([_FORMAT, self.kind, self.source, self.compiler, list(self.flags)])  # ASCII
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry as ``ls`` shows it; ``used`` is the time of its last use [seconds since 1970]."""

    digest: str
    kind: str
    compiler: str
    files: tuple[str, ...]
    size_bytes: int
    used: float


@dataclass(frozen=True, slots=True)
class CacheProblem:
    """An entry whose content does not match its record."""

    digest: str
    reason: str


def default_directory() -> Path:
    """Return ``$POLYLOOP_CACHE_DIR``, or ``polyloop`` in the user's cache directory."""
    if chosen := os.environ.get("POLYLOOP_CACHE_DIR"):
        return Path(chosen).expanduser()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "polyloop"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "polyloop" / "cache"
    return Path.home() / ".cache" / "polyloop"


def open_cache(directory: Path | None = None, limit_bytes: int = DEFAULT_LIMIT) -> DiskCache | None:
    """Return the cache in *directory*, or None where it cannot be made or written.

    Raises
    ------
    CompilerError
        ``unsafe-cache-dir``: users other than its owner could put programs into it.
    """
    try:
        root = default_directory() if directory is None else directory
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = root.stat()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: nothing says where the user's files are
        return None
    _refuse_unsafe(root, status)
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        return None
    return DiskCache(root, limit_bytes)


def _refuse_unsafe(root: Path, status: os.stat_result) -> None:
    if os.name != "posix":
        return
    reason = ""
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        reason = f"its permissions are {stat.filemode(status.st_mode)}"
    elif status.st_uid not in (os.getuid(), 0):
        reason = f"it belongs to user {status.st_uid}, not to {os.getuid()}"
    if reason:
        raise CompilerError("compile", None, [Diagnostic(
            "unsafe-cache-dir", f"others can write to the cache directory '{root}'",
            (reason, "whoever writes there could make you run their programs"),
            (f"chmod go-w '{root}', or set POLYLOOP_CACHE_DIR to a directory of your own",))])


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class DiskCache:
    """A directory of entries, at most *limit_bytes* in all, but for one that is larger alone."""

    root: Path
    limit_bytes: int = DEFAULT_LIMIT

    def get(self, key: CacheKey) -> Path | None:
        """Return the directory of *key*'s entry, or None.

        The stored source must equal the key's and every file must have the recorded hash; an
        entry that fails is removed.
        """
        return None if self.read(key) is None else self.root / key.digest

    def read(self, key: CacheKey) -> dict[str, bytes] | None:
        """Return the files of *key*'s entry, as they were checked, or None.

        What is returned is what was checked: the files may change behind it.
        """
        entry = self.root / key.digest
        if not entry.is_dir():
            return None
        files = _checked(entry, key)
        if isinstance(files, str):
            _remove(entry)
            return None
        with contextlib.suppress(OSError):
            os.utime(entry / _RECORD)
        return files

    def put(self, key: CacheKey, files: Mapping[str, bytes]) -> Path | None:
        """Store *files* under *key* and return their directory; None where the disk refuses."""
        entry = self.root / key.digest
        record = {
            "format": _FORMAT,
            "kind": key.kind,
            "compiler": key.compiler,
            "flags": list(key.flags),
            "files": {name: [len(data), _sha256(data)] for name, data in files.items()},
        }
        try:
            fresh = Path(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        except OSError:
            return None
        try:
            (fresh / _SOURCE).write_bytes(_encoded(key.source))
            for name, data in files.items():
                (fresh / name).write_bytes(data)
            (fresh / _RECORD).write_text(json.dumps(record, indent=1))
            self._publish(fresh, entry, key)
        except OSError:
            _remove(fresh)
            return None
        self._evict_sometimes(entry.name, _bytes_of(entry))
        return entry

    def _evict_sometimes(self, keep: str, grown: int) -> None:
        """Count *grown* more bytes, and evict where that makes too many, or the count is old or lost.

        The count is a file that all processes add to, one at a time.  Looking at all entries takes a second where there
        are thousands: it is done once a day, and when they are too many, down to a part less than the limit.
        """
        with _locked(self.root / _SIZE) as file:
            if file is None:  # no place for a count
                self.evict(keep=keep)
                return
            now, counted = int(time.time()), _COUNT.fullmatch(os.pread(file, 64, 0))
            at, total = map(int, counted.groups()) if counted else (0, 0)
            total += grown
            if total > self.limit_bytes or not 0 <= now - at < _COUNTED_FOR:
                total, at = self._evicted(self.limit_bytes - self.limit_bytes // _PARTS, keep), now
            with contextlib.suppress(OSError):
                os.pwrite(file, b"%012d %020d\n" % (at, total), 0)

    def _publish(self, fresh: Path, entry: Path, key: CacheKey) -> None:
        try:
            fresh.rename(entry)
        except OSError:  # another process was faster, or an entry that is damaged is in the way
            if not isinstance(_checked(entry, key), str):
                _remove(fresh)
                return
            _remove(entry)
            fresh.rename(entry)

    def made(self, key: CacheKey, make: Callable[[], dict[str, bytes]], names: Collection[str]) -> dict[str, bytes]:
        """Return the files of *key*'s entry, which has all of *names*; made and stored if there is none.

        One thread of all processes makes them, while the others wait: it holds a lock on a file of the directory, which
        the system gives back when a process ends, however it does.
        """
        files = self.read(key)
        if files is not None and files.keys() >= set(names):
            return files
        with _alone(self.root, key.digest):
            files = self.read(key)
            if files is None or not files.keys() >= set(names):
                files = make()
                self.put(key, files)
            return files

    def entries(self) -> list[CacheEntry]:
        """Return all readable entries, the least recently used first."""
        found = []
        for entry in self._directories():
            record = _read_record(entry)
            if record is None:
                continue
            try:
                used = (entry / _RECORD).stat().st_mtime
            except OSError:  # removed meanwhile
                continue
            found.append(CacheEntry(entry.name, str(record["kind"]), str(record["compiler"]),
                                    tuple(sorted(record["files"])), _bytes_of(entry), used))
        return sorted(found, key=lambda e: (e.used, e.digest))

    def verify(self, *, remove: bool = False) -> list[CacheProblem]:
        """Return every entry whose content does not match its record; drop them if *remove*."""
        problems = []
        for entry in self._directories():
            fault = _checked(entry, None)
            if isinstance(fault, str):
                problems.append(CacheProblem(entry.name, fault))
                if remove:
                    _remove(entry)
        return problems

    def clear(self) -> int:
        """Remove all entries; return how many there were."""
        directories = self._directories()
        for entry in directories:
            _remove(entry)
        self._sweep(older_than=0.0)
        with contextlib.suppress(OSError):
            (self.root / _SIZE).unlink()
        return len(directories)

    def evict(self, keep: str = "") -> int:
        """Remove the least recently used entries until the limit holds; return how many.

        The entry named *keep* stays, even if it is larger than the limit alone.
        """
        before = len(self._directories())
        self._evicted(self.limit_bytes, keep)
        return before - len(self._directories())

    def _evicted(self, wanted: int, keep: str) -> int:
        """Remove the least recently used entries, if they are more than the limit, until they are *wanted* bytes.

        The bytes of those that are left are returned.
        """
        self._sweep(older_than=_ABANDONED_AFTER)
        entries = self.entries()
        total = sum(entry.size_bytes for entry in entries)
        if total <= self.limit_bytes:
            return total
        for entry in entries:
            if total <= wanted:
                break
            if entry.digest != keep:
                _remove(self.root / entry.digest)
                total -= entry.size_bytes
        return total

    def _directories(self) -> list[Path]:
        try:
            return sorted(p for p in self.root.iterdir() if len(p.name) == 64 and p.is_dir())
        except OSError:
            return []

    def _sweep(self, older_than: float) -> None:
        now = time.time()
        for path in self.root.glob(".new-*"):
            with contextlib.suppress(OSError):
                if now - path.stat().st_mtime >= older_than:
                    _remove(path)


_LOCKS: Final[dict[str, threading.Lock]] = {}
_GUARD = threading.Lock()
_OF_THREAD: Final = threading.local()


@contextlib.contextmanager
def _alone(root: Path, digest: str) -> Iterator[None]:
    """Be the only thread of all processes for *digest*, or for another one whose lock is in the same file.

    Where the directory takes no locks, threads of this process alone wait for each other.  What is made for something
    else that is being made has files of its own: otherwise a thread could wait for itself, and two for each other.
    """
    depth = getattr(_OF_THREAD, "depth", 0)
    name = f".lock-{digest[:2]}" if depth == 0 else f".lock-{digest[:2]}-{depth}"
    with _GUARD:
        lock = _LOCKS.setdefault(str(root / digest), threading.Lock())
    _OF_THREAD.depth = depth + 1
    try:
        with lock, contextlib.ExitStack() as held:
            if sys.platform != "win32":
                held.enter_context(_locked(root / name))  # given back also for a child that has the descriptor
            yield
    finally:
        _OF_THREAD.depth = depth
        with _GUARD:
            if not lock.locked():
                _LOCKS.pop(str(root / digest), None)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Open a file for one thread of all processes at a time; None where it cannot be opened."""
    with contextlib.ExitStack() as held:
        file = None
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                held.callback(os.close, file)
                fcntl.flock(file, fcntl.LOCK_EX)
                held.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield file


def _bytes_of(entry: Path) -> int:
    """Return the bytes of the files of an entry; 0 if it is going."""
    try:
        return sum(item.stat().st_size for item in entry.iterdir())
    except OSError:
        return 0


def _forget_locks() -> None:
    """Have no locks in a child of fork that threads of its parent hold."""
    global _GUARD  # noqa: PLW0603 - of this process
    _GUARD = threading.Lock()
    _LOCKS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


def _remove(entry: Path) -> None:
    shutil.rmtree(entry, ignore_errors=True)


def _encoded(text: str) -> bytes:
    """Return *text* as bytes, also where it has halves of characters, as names of files in other encodings give."""
    return text.encode(errors="surrogatepass")


def _content(path: Path, limit: int) -> bytes:
    """Return the bytes of a plain file.

    Raises
    ------
    OSError, ValueError
        It is no plain file, or has more than *limit* bytes.
    """
    found = plain_content(path, limit + 1)
    if len(found) > limit:
        raise OSError(f"'{path.name}' has more than {limit} bytes")
    return found


def _read_record(entry: Path) -> dict[str, Any] | None:
    try:
        record = json.loads(_content(entry / _RECORD, _RECORD_LIMIT))
    except (OSError, ValueError, RecursionError):
        return None
    wanted = {"format": int, "kind": str, "compiler": str, "flags": list, "files": dict}
    if not isinstance(record, dict):
        return None
    well_formed = all(isinstance(record.get(name), kind) for name, kind in wanted.items())
    well_formed = well_formed and record["format"] == _FORMAT and all(map(_is_recorded, record["files"].items()))
    return record if well_formed else None


def _is_recorded(entry: tuple[str, object]) -> bool:
    """Return whether *entry* is the name of a file with its size and hash."""
    name, facts = entry
    match facts:
        case [int(size), str()]:
            return _FILE_NAME.fullmatch(name) is not None and size >= 0
    return False


def _checked(entry: Path, key: CacheKey | None) -> dict[str, bytes] | str:
    """Return the files of the entry if they can be used (for *key*), or why they cannot."""
    record = _read_record(entry)
    if record is None:
        return "its record is missing or unreadable"
    files = {}
    try:
        source = _content(entry / _SOURCE, _SOURCE_LIMIT)
        stored = CacheKey(record["kind"], source.decode(errors="surrogatepass"), record["compiler"],
                          tuple(map(str, record["flags"])))
        if stored.digest != entry.name or (key is not None and stored != key):
            return "its source, compiler or flags are not those of its key"
        for name, (size, digest) in record["files"].items():
            files[name] = _content(entry / name, size)
            if _sha256(files[name]) != digest:
                return f"'{name}' is not what was stored"
    except (OSError, ValueError) as err:
        return f"it cannot be read: {err.__class__.__name__}"
    return files
