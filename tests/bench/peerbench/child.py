"""The process a peer runs in: its end of what process.py describes.

Libraries print what they like: it goes to the child's log and not into the answers. A peer whose
step takes longer than STEP_LIMIT is not worth the wait and says so instead of warming up.
"""

import importlib
import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

from .table import PEERS
from .trainers import TRAINERS

WARM_UP_STEPS = 10
STEP_LIMIT = 1.0  # seconds of CPU time


class TooSlow(Exception):
    pass


def memory(key):
    """VmHWM or VmRSS of this process in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def version(peer, module):
    """Of its distribution, or else of the git checkout it lies in."""
    try:
        return f"{peer.origin} {metadata.version(peer.origin)}"
    except (metadata.PackageNotFoundError, ValueError):
        pass  # it was found on PYTHONPATH
    git = ["git", "-C", str(Path(module.__file__).parent), "log", "-1", "--format=%h of %cs"]
    shown = subprocess.run(git, capture_output=True, text=True)
    return f"{peer.origin} {shown.stdout.strip() or 'of unknown version'}"


def frameworks(peer):
    names = {"torch": ["torch"], "jax": ["jax", "jaxlib", "flax", "optax"]}[peer.framework]
    return [f"{name} {metadata.version(name)}" for name in [*names, "numpy"]]


def warm_up(trainer):
    """The loss of the first step. The first two steps may compile."""
    first = trainer.steps(1)
    trainer.steps(1)
    start = time.process_time()
    trainer.steps(1)
    spent = time.process_time() - start
    if spent > STEP_LIMIT:
        raise TooSlow(f"a step takes {spent:.1f} s")
    trainer.steps(WARM_UP_STEPS)
    return first


def serve(name, workload):
    """The child's main function. Everything but its answers is moved to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**record):
        print(json.dumps(record), file=answers, flush=True)

    peer = next(p for p in PEERS if p.name == name)
    try:
        module = importlib.import_module(peer.module)
        trainer = TRAINERS[peer.framework](workload, lambda: peer.build(module, workload))
        imported = memory("VmRSS")
        first = warm_up(trainer)
        versions = [version(peer, module), *frameworks(peer)]
    except TooSlow as slow:
        return answer(error=str(slow))
    except Exception as error:  # whatever a library raises is a reason to name it as missing
        lines = str(error).strip().splitlines() or [""]
        return answer(error=f"{type(error).__name__}: {lines[0]} ({peer.how_to_install()})")
    answer(
        parameters=trainer.parameters,
        versions=list(dict.fromkeys(versions)),
        loss=first,
        imported=imported,
    )
    for line in sys.stdin:
        steps = int(line)
        cpu, wall = time.process_time(), time.perf_counter()
        loss = trainer.steps(steps)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        answer(rows=steps * workload.batch, wall=wall, cpu=cpu, loss=loss, peak=memory("VmHWM"))
