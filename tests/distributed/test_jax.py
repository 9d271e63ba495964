"""Divided kernels inside of JAX's ``shard_map``, in a process of its own, whose number of devices is set before."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = [sys.executable, "-m", "tests.distributed.jaxworker"]

pytestmark = pytest.mark.skipif(find_spec("jax") is None and "POLYLOOP_REQUIRE_INTEROP" not in os.environ,
                                reason="JAX is not installed")

REFUSED = ["mesh-mismatch", "mesh-mismatch", "wrong-part", "missing-size", "unknown-argument", "missing-argument",
           "mesh-mismatch"]


def lines(*arguments: str) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([*WORKER, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
                          timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_programs_are_made_of_the_collectives_of_jax() -> None:
    assert lines() == ["heat ppermute 16", "columns reduce_scatter 8", "cells ppermute psum 5", *REFUSED]


@pytest.mark.slow
def test_all_programs_are_the_same_inside_of_shard_map() -> None:
    found = lines("all")
    assert found[-len(REFUSED):] == REFUSED
    assert len(found) == 18 + len(REFUSED)
