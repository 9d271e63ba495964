"""Manifests of exported programs: JSON with sizes and hashes of all files; reading one executes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from polyloop.edge.files import plain_content
from polyloop.errors import CompilerError, Diagnostic

__all__ = ["FORMAT", "MANIFEST", "Manifest", "bundle_error", "digest", "manifest_text", "read_file", "read_manifest"]

MANIFEST: Final = "manifest.json"
NAME: Final = "polyloop-export"
FORMAT: Final = 1
"""Version of the format; bundles of another one are refused."""
_MOST_BYTES: Final = 2**24
_MOST_CODE: Final = 2**40
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Manifest:
    """A manifest that was read, and is of this format.

    Attributes
    ----------
    data
        The JSON object.
    """

    folder: Path
    data: Mapping[str, Any]

    @property
    def kernel(self) -> str:
        """Name of the kernel."""
        return str(self.data["kernel"])

    @property
    def target(self) -> str:
        """``"c"`` or ``"cuda"``."""
        return str(self.data["target"])


def digest(data: bytes) -> str:
    """Return the SHA-256 of *data*."""
    return hashlib.sha256(data).hexdigest()


def _sealed(data: Mapping[str, Any]) -> str:
    """Return the hash of all of a manifest but its seal."""
    rest = {key: entry for key, entry in data.items() if key != "seal"}
    return digest(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode())


def manifest_text(data: Mapping[str, Any], files: Mapping[str, bytes]) -> str:
    """Return the text of a manifest with *data* and the hashes of *files*."""
    found = {name: {"bytes": len(text), "sha256": digest(text)} for name, text in sorted(files.items())}
    whole: dict[str, Any] = {"name": NAME, "format": FORMAT, **data, "files": found}
    return json.dumps({**whole, "seal": _sealed(whole)}, indent=1) + "\n"


def bundle_error(kernel: str | None, code: str, message: str, *notes: str) -> CompilerError:
    """Return the error for a bundle that cannot be loaded."""
    hint = "export it again: pl.export(knl, directory, bundle=True)"
    return CompilerError("load", kernel, [Diagnostic(code, message, notes, (hint,))])


def read_manifest(directory: str | Path) -> Manifest:
    """Read the manifest in *directory*.

    Raises
    ------
    CompilerError
        ``no-bundle``, ``bundle-version``, ``bundle-damaged``.
    """
    folder = Path(directory)
    path = folder / MANIFEST
    try:
        text = plain_content(path, _MOST_BYTES + 1, follow=True)
    except OSError as error:
        note = f"its manifest cannot be read: {error}"
        raise bundle_error(None, "no-bundle", f"'{folder}' is no bundle", note) from None
    if len(text) > _MOST_BYTES:
        raise bundle_error(None, "bundle-damaged", f"'{path}' is too long for a manifest")
    try:
        data: Any = json.loads(text)
        seal = _sealed(data) if isinstance(data, dict) else ""
    except (ValueError, RecursionError) as error:
        raise bundle_error(None, "bundle-damaged", f"'{path}' is no JSON", f"{error}"[:200]) from None
    if not isinstance(data, dict) or data.get("name") != NAME:
        raise bundle_error(None, "no-bundle", f"'{path}' is no manifest of an exported kernel")
    found = data.get("format")
    if found != FORMAT or type(found) is not int:
        age = "a newer" if isinstance(found, int) and found > FORMAT else "another"
        raise bundle_error(None, "bundle-version", f"the bundle '{folder}' is of {age} format than this version reads",
                           f"its format is {found!r}"[:80] + f", this version reads {FORMAT}")
    if data.get("seal") != seal:
        raise bundle_error(None, "bundle-damaged", f"'{path}' was changed after it was written",
                           "its hash is not the one that it holds")
    if not _is_whole(data):
        raise bundle_error(None, "bundle-damaged", f"'{path}' does not describe an exported kernel")
    return Manifest(folder, data)


def _is_whole(data: Mapping[str, Any]) -> bool:
    """Return whether a manifest has the parts that each has, of the right types."""
    kinds = {"kernel": str, "target": str, "prefix": str, "files": dict, "statuses": dict, "parameters": list}
    if not all(isinstance(data.get(key), kind) for key, kind in kinds.items()):
        return False
    files = data["files"].items()
    return isinstance(data.get("bundle", {}), dict) and all(
        _FILE_NAME.fullmatch(name) is not None and isinstance(entry, dict) and type(entry.get("bytes")) is int
        and 0 <= entry["bytes"] < _MOST_CODE and isinstance(entry.get("sha256"), str) for name, entry in files)


def read_file(manifest: Manifest, name: str) -> bytes:
    """Return the content of a file of the bundle, whose hash is that of the manifest.

    Raises
    ------
    CompilerError
        ``bundle-damaged``.
    """
    entry = manifest.data["files"].get(name)
    if entry is None:
        raise bundle_error(manifest.kernel, "bundle-damaged", f"the manifest has no file {name!r}"[:120])
    path = manifest.folder / name
    try:
        found = plain_content(path, int(entry["bytes"]) + 1, follow=True)
    except OSError as error:
        raise bundle_error(manifest.kernel, "bundle-damaged", f"'{path}' cannot be read", f"{error}") from None
    if len(found) != entry["bytes"] or digest(found) != entry["sha256"]:
        few = len(found) < entry["bytes"]
        more = "more than " if len(found) > entry["bytes"] else ""
        raise bundle_error(manifest.kernel, "bundle-damaged", f"'{path}' {'is truncated' if few else 'was changed'}",
                           f"the manifest says {entry['bytes']} bytes, SHA-256 {entry['sha256']}",
                           f"found {more}{min(len(found), entry['bytes'])} bytes, SHA-256 {digest(found)}")
    return found
