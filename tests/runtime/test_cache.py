from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from polyloop.errors import CompilerError
from polyloop.runtime.cache import CacheEntry, CacheKey, DiskCache, default_directory, open_cache

KEY = CacheKey("c", "int x;\n", "cc 1.0", ("-O3",))


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    found = open_cache(tmp_path / "cache")
    assert found is not None
    return found


def test_what_is_put_is_found(cache: DiskCache) -> None:
    assert cache.get(KEY) is None
    assert cache.put(KEY, {"library.so": b"abc", "log.txt": b""}) is not None
    entry = cache.get(KEY)
    assert entry is not None
    assert (entry / "library.so").read_bytes() == b"abc"
    assert not list(cache.root.glob(".new-*"))


@pytest.mark.parametrize("other", [
    CacheKey("cuda", "int x;\n", "cc 1.0", ("-O3",)),
    CacheKey("c", "int y;\n", "cc 1.0", ("-O3",)),
    CacheKey("c", "int x;\n", "cc 2.0", ("-O3",)),
    CacheKey("c", "int x;\n", "cc 1.0", ("-O2",)),
])
def test_every_part_of_the_key_counts(cache: DiskCache, other: CacheKey) -> None:
    cache.put(KEY, {"library.so": b"abc"})
    assert cache.get(other) is None


def test_an_entry_whose_source_differs_is_not_used(cache: DiskCache) -> None:
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    (entry / "source.txt").write_text("int z;\n")
    assert [p.reason for p in cache.verify()] == ["its source, compiler or flags are not those of its key"]
    assert cache.get(KEY) is None
    assert not entry.exists()


def test_an_entry_whose_file_was_changed_is_not_used(cache: DiskCache) -> None:
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    (entry / "library.so").write_bytes(b"abd")
    assert [p.reason for p in cache.verify()] == ["'library.so' is not what was stored"]
    assert cache.get(KEY) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', "\x00"])
def test_an_entry_with_a_broken_record_is_not_used(cache: DiskCache, text: str) -> None:
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    (entry / "record.json").write_text(text)
    assert [p.reason for p in cache.verify()] == ["its record is missing or unreadable"]
    assert cache.get(KEY) is None
    assert cache.put(KEY, {"library.so": b"abc"}) is not None
    assert cache.get(KEY) is not None


def test_a_damaged_entry_is_replaced_when_it_is_put_again(cache: DiskCache) -> None:
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    (entry / "library.so").write_bytes(b"")
    cache.put(KEY, {"library.so": b"abc"})
    assert cache.verify() == []


def test_verify_can_drop_what_is_damaged(cache: DiskCache) -> None:
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    (entry / "library.so").unlink()
    assert [p.reason for p in cache.verify(remove=True)] == ["it cannot be read: FileNotFoundError"]
    assert cache.entries() == []


def test_a_record_cannot_point_outside_its_entry(cache: DiskCache, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"abc")
    entry = cache.put(KEY, {"library.so": b"abc"})
    assert entry is not None
    record = (entry / "record.json").read_text().replace("library.so", "../../secret")
    (entry / "record.json").write_text(record)
    assert cache.get(KEY) is None


def test_the_least_recently_used_entries_go_first(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    cache = DiskCache(root, limit_bytes=10_000)
    keys = [CacheKey("c", f"int x{k};\n", "cc") for k in range(4)]
    for age, key in enumerate(keys[:3]):
        entry = cache.put(key, {"library.so": bytes(3000)})
        assert entry is not None
        os.utime(entry / "record.json", (1000 + age, 1000 + age))
    assert cache.get(keys[0]) is not None  # now the youngest
    cache.put(keys[3], {"library.so": bytes(3000)})
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]


def stored(cache: DiskCache, number: int, size: int = 1000) -> None:
    assert cache.put(CacheKey("c", f"int x{number};\n", "cc"), {"library.so": bytes(size)}) is not None


def test_entries_are_looked_at_when_they_are_too_many_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    old = DiskCache.entries

    def entries(self: DiskCache) -> list[CacheEntry]:
        looks.append(1)
        return old(self)

    monkeypatch.setattr(DiskCache, "entries", entries)
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    for number in range(30):  # each as from a process of its own: nothing is remembered but the file
        stored(DiskCache(root, limit_bytes=60_000), number)
    assert len(looks) == 1, "at the first"
    sizes = []
    for number in range(30, 120):
        stored(DiskCache(root, limit_bytes=60_000), number)
        sizes.append(sum(file.stat().st_size for file in root.glob("*/*")))
    assert max(sizes) <= 60_000
    assert min(sizes[45:]) > 54_000, "and no more goes than has to"
    assert len(looks) < 90


def test_a_count_that_is_lost_old_or_wrong_is_made_again(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    cache, count = DiskCache(root, limit_bytes=100_000), root / ".size"
    stored(cache, 0)
    wrong = ("", "rubbish", "9" * 40, "-1 5\n", f"{0:012d} {5:020d}\n", f"{10**11:012d} {5:020d}\n")
    for number, text in enumerate(wrong):
        count.write_text(text)
        stored(cache, 1 + number)
        assert int(count.read_text().split()[1]) == sum(file.stat().st_size for file in root.glob("*/*")), text
    for number in range(5):  # taken away by hand: nothing is evicted that need not be
        cache.clear()
        stored(cache, number, 90_000)
        assert len(cache.entries()) == 1
    count.unlink(missing_ok=True)
    count.symlink_to(tmp_path / "elsewhere")  # which is not followed
    stored(cache, 99)
    assert not (tmp_path / "elsewhere").exists()
    assert sum(entry.size_bytes for entry in cache.entries()) <= 100_000


def test_the_limit_holds_for_many_threads(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    root.mkdir(mode=0o700)
    most: list[int] = []

    def store(first: int) -> None:
        for number in range(first, first + 15):
            stored(DiskCache(root, limit_bytes=30_000), number)
            most.append(sum(entry.size_bytes for entry in DiskCache(root).entries()))

    threads = [threading.Thread(target=store, args=(100 * k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) <= 30_000 + 8 * 2000, "and what is being stored"
    assert int((root / ".size").read_text().split()[1]) >= sum(e.size_bytes for e in DiskCache(root).entries())


def test_an_entry_larger_than_the_limit_is_kept_alone(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, limit_bytes=100)
    cache.put(CacheKey("c", "old", "cc"), {"library.so": bytes(50)})
    assert cache.put(KEY, {"library.so": bytes(500)}) is not None
    assert [e.digest for e in cache.entries()] == [KEY.digest]


def test_entries_are_listed_and_cleared(cache: DiskCache) -> None:
    cache.put(KEY, {"library.so": b"abc"})
    (entry,) = cache.entries()
    assert (entry.kind, entry.compiler, entry.files) == ("c", "cc 1.0", ("library.so",))
    assert entry.size_bytes > 3
    (cache.root / ".new-abandoned").mkdir()
    assert cache.clear() == 1
    assert list(cache.root.iterdir()) == []


def test_a_directory_that_others_can_write_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o777)
    with pytest.raises(CompilerError) as err:
        open_cache(root)
    assert str(err.value) == f"""\
compile: others can write to the cache directory '{root}' [unsafe-cache-dir]
  Note: its permissions are drwxrwxrwx
  Note: whoever writes there could make you run their programs
  Hint: chmod go-w '{root}', or set POLYLOOP_CACHE_DIR to a directory of your own"""


def test_there_is_no_cache_where_the_directory_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert open_cache(tmp_path / "file" / "cache") is None


def test_the_directory_is_made_for_its_owner_only(tmp_path: Path) -> None:
    found = open_cache(tmp_path / "a" / "b")
    assert found is not None
    assert found.root.stat().st_mode & 0o777 == 0o700


def test_the_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLYLOOP_CACHE_DIR", str(tmp_path / "mine"))
    assert default_directory() == tmp_path / "mine"
    monkeypatch.delenv("POLYLOOP_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert default_directory() == tmp_path / "xdg" / "polyloop"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory() == tmp_path / ".cache" / "polyloop"


def test_an_entry_that_is_made_for_another_one_has_a_lock_of_its_own(cache: DiskCache) -> None:
    """The digests of both begin alike, as those of one of 256 programs and its prelude do."""
    inner = next(key for key in (CacheKey("c", f"int y{n};", "cc") for n in range(10_000))
                 if key.digest[:2] == KEY.digest[:2])  # fmt: skip

    def make() -> dict[str, bytes]:
        return {"library.so": cache.made(inner, lambda: {"prelude.o": b"abc"}, ["prelude.o"])["prelude.o"]}

    found = list[dict[str, bytes]]()
    thread = threading.Thread(target=lambda: found.append(cache.made(KEY, make, ["library.so"])), daemon=True)
    thread.start()
    thread.join(timeout=60)
    assert found == [{"library.so": b"abc"}]
