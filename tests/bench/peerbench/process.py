"""A contestant in a process of its own, as the parent sees it.

Both kan_bench --serve and a peer (child.py) speak the same way. The process says in one line of
JSON that it has warmed up: {"parameters", "versions", "loss", "imported"}, of the first step and of
the memory in MiB before training. Then it answers each line "N" on standard input with the time of
N training steps, {"rows", "wall", "cpu", "loss", "peak"}: seconds of wall and CPU time, the loss
of the last step, and the largest resident set of the process so far in MiB. It ends with its
standard input. It is pinned to its cores before it starts, so that every library sees a machine
with no more of them.
"""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

START_LIMIT = 900  # seconds; compilers may be at work
ANSWER_LIMIT = 600

# Allocations of any size stay in the process: large temporaries are not mapped, and paged in, anew
# in each step. Several peers gain from it, so each is timed with and without.
KEPT = str(1 << 32)
SETTINGS = {
    "malloc default": {},
    "malloc keeps": {"MALLOC_MMAP_THRESHOLD_": KEPT, "MALLOC_TRIM_THRESHOLD_": KEPT},
}
ROOT = Path(__file__).resolve().parents[3]


class Lost(Exception):
    """A contestant that did not start, or no longer answers; the text says why."""


def in_toolchain(program):
    """The words that run a program of the build folder."""
    runner = ROOT / "scripts" / "toolchain"
    if not Path(program).exists():
        raise Lost(f"{program} does not exist: build it")
    return [*([str(runner), "run"] if runner.exists() else []), str(Path(program).absolute())]


def thread_count(count):
    """Environment of every contestant: so many threads, in whatever way it counts them."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return dict.fromkeys(names, str(count))


def pin(cores):
    return lambda: os.sched_setaffinity(0, cores)


class Contestant:
    """Started and warmed up when the constructor returns; log: a file for what it prints."""

    def __init__(self, name, command, cores, log, environment=(), cwd=ROOT):
        self.name, self.log, self.results = name, Path(log), []
        with open(self.log, "w") as stderr:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                cwd=cwd,
                env=dict(os.environ, **thread_count(len(cores)), **dict(environment)),
                preexec_fn=pin(cores),
            )
        self.about = self._answer(START_LIMIT)
        if "error" in self.about:
            self.close()
            raise Lost(self.about["error"])

    def calibrate(self, seconds):
        """A round takes that long from now on."""
        trial = self.steps(5)
        self.count = max(1, round(seconds * 5 / trial["wall"]))
        return self

    def round(self):
        self.results.append(self.steps(self.count))

    def ask(self, steps):
        try:
            print(steps, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # the reason is in the missing answer

    def answer(self):
        return self._answer(ANSWER_LIMIT)

    def steps(self, count):
        self.ask(count)
        return self.answer()

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

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


def kan_bench(program, case, cores, folder):
    """A case of kan_bench."""
    log = Path(folder, f"kan_bench.{case}.{'.'.join(map(str, sorted(cores)))}.log")
    binding = {"OMP_PROC_BIND": "close"}
    command = [*in_toolchain(program), "--serve", case]
    return Contestant("kan_bench", command, cores, log, binding)


def peer(script, entry, workload, setting, cores, folder):
    """An entry of the table of peers, in a process of `script --child`."""
    log = Path(folder, f"{entry.name}.{setting.replace(' ', '-')}.log")
    environment = dict(SETTINGS[setting])
    environment.update(JAX_PLATFORMS="cpu", CUDA_VISIBLE_DEVICES="", MPLBACKEND="agg")
    # the child starts in a folder of its own, as PyKAN writes into the current one
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in path if p)
    command = [sys.executable, script, "--child", entry.name, "--workloads", workload.name]
    name = f"{entry.name}, {setting}"
    started = Contestant(name, command, cores, log, environment, cwd=folder)
    started.peer, started.setting = entry, setting
    return started
