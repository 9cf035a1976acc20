"""What the tests of saved programs share."""

from __future__ import annotations

import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jitcore

__all__ = ["entries_of", "rebuilt", "reloaded", "run_in", "saved"]

MANIFEST = "manifest.json"


def saved(obj: Any, extra: Mapping[str, str | bytes] | None = None) -> bytes:
    """The archive of a function or a module."""
    file = io.BytesIO()
    jitcore.save(obj, file, extra)
    return file.getvalue()


def reloaded(obj: Any) -> Any:
    """What loading the archive of a function or a module gives."""
    return jitcore.load(io.BytesIO(saved(obj)))


def entries_of(data: bytes) -> dict[str, bytes]:
    """The entries of an archive, the manifest among them."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuilt(entries: Mapping[str, bytes], **changes: Any) -> bytes:
    """An archive of these entries with a manifest that has their true sizes and hashes."""
    manifest = json.loads(entries[MANIFEST]) | changes
    manifest["entries"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in entries.items()
        if name != MANIFEST
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for name, data in entries.items():
            if name != MANIFEST:
                archive.writestr(name, data)
    return file.getvalue()


def run_in(folder: Path, text: str) -> str:
    """What a new process of Python prints when it runs a text in a folder."""
    path = os.pathsep.join(filter(None, [str(folder), *sys.path]))
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", textwrap.dedent(text)]
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout
