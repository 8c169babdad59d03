"""The process a peer runs in, and the parent's end of it.

A child pins itself to one core before it imports anything, so that every library sees a machine
with one core; imports its peer, trains a few steps to warm up, and says so in one line of JSON.
Then it answers each line "N" on standard input with the time of N training steps,
{"rows", "wall", "cpu", "loss", "peak"}: seconds of wall and CPU time, the loss of the last step,
and the largest resident set of the process so far in MiB. It ends with its standard input.
Libraries print what they like: it goes to the child's log and not into the answers.
"""

import importlib
import json
import os
import subprocess
import sys
import threading
import time
from importlib import metadata
from pathlib import Path

from . import workload
from .table import PEERS
from .trainers import TRAINERS

WARM_UP_STEPS = 10
START_LIMIT = 900  # seconds; compilers may be at work
ANSWER_LIMIT = 600

# Allocations of any size stay in the process: large temporaries are not mapped, and paged in, anew
# in each step. Several peers gain from it, so each is timed with and without.
KEPT = str(1 << 32)
SETTINGS = {
    "malloc default": {},
    "malloc keeps": {"MALLOC_MMAP_THRESHOLD_": KEPT, "MALLOC_TRIM_THRESHOLD_": KEPT},
}


class Lost(Exception):
    """A child that did not start, or no longer answers; the text says why."""


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


def serve(name, core):
    """The child's main function. Everything but its answers is moved to stderr."""
    os.sched_setaffinity(0, {core})
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def answer(**record):
        print(json.dumps(record), file=answers, flush=True)

    peer = next(p for p in PEERS if p.name == name)
    try:
        module = importlib.import_module(peer.module)
        trainer = TRAINERS[peer.framework](lambda: peer.build(module))
        imported = memory("VmRSS")
        first = trainer.steps(1)
        trainer.steps(WARM_UP_STEPS)
        versions = [version(peer, module), *frameworks(peer)]
    except Exception as error:  # whatever a library raises is a reason to name it as missing
        lines = str(error).strip().splitlines() or [""]
        return answer(error=f"{type(error).__name__}: {lines[0]}")
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
        answer(rows=steps * workload.BATCH, wall=wall, cpu=cpu, loss=loss, peak=memory("VmHWM"))


class Child:
    """A peer under one setting: started, warmed up and calibrated when the constructor returns."""

    def __init__(self, script, peer, setting, core, seconds, folder):
        self.peer, self.setting, self.results = peer, setting, []
        self.name = f"{peer.name}, {setting}"
        self.log = Path(folder, f"{peer.name}.{setting.replace(' ', '-')}.log")
        environment = dict(os.environ, **SETTINGS[setting], **one_core())
        environment.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="", MPLBACKEND="agg")
        # the child starts in a folder of its own, as PyKAN writes into the current one
        path = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in path if p)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, script, "--child", peer.name, "--core", str(core)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
                env=environment,
            )
        self.about = self._answer(START_LIMIT)
        if "error" in self.about:
            self.close()
            raise Lost(f"{self.about['error']} ({peer.how_to_install()})")
        trial = self._ask(5)
        self.count = max(1, round(seconds * 5 / trial["wall"]))

    def round(self):
        self.results.append(self._ask(self.count))

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, steps):
        try:
            print(steps, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # the reason is in the missing answer
        return self._answer(ANSWER_LIMIT)

    def _answer(self, limit):
        deadline = time.monotonic() + limit
        timer = threading.Timer(limit, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        status = self.process.wait()
        tail = self.log.read_text(errors="replace").strip().splitlines()[-1:]
        late = time.monotonic() >= deadline
        why = f"no answer in {limit} s" if late else f"ended with status {status}"
        raise Lost(": ".join([why, *tail]))


def one_core():
    """Environment of every contestant: one thread, in whatever way it counts them."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, "1")
