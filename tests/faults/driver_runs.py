"""Runs of kan_driver for the fault tests, and what must be equal between two of them.

A Run is a directory (in memory where the machine has one there: a kill leaves the system's
caches, so no disk is needed), a deck and arguments. launch() starts the driver in it, with
the kill shim preloaded into the driver alone where calls are counted; everything() collects
what a finished run leaves, times and rates apart, as bytes to be compared.
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import h5py

PATIENCE = 120  # seconds for a launch that takes less than three on an idle machine

# All kinds of outputs, several of them due at the same steps, checkpoints named first.
# 300 rows, 270 of them for training: 10 updates an epoch.
SMALL = """<job>
name = run
<run>
epochs = 6
threads = 1
ndiag = 20
<data>
source = function
rows = 300
expressions = "x^2 + sin(3*y)"
noise = 0.01
validation = 0.1
test = 0.1
<network>
widths = 2, 4, 1
<optimizer>
learning_rate = 1e-2
batch = 24
<output1>
type = history
dstep = 1
<output2>
type = restart
dstep = 7
keep = 2
<output3>
type = prediction
dstep = 14
<output4>
type = parameters
dstep = 21
"""

# For events at random times; 30 updates an epoch. ENDLESS epochs: until stopped.
ENDLESS = 1000000000
LONG = """<job>
name = run
<run>
epochs = {epochs}
threads = 1
ndiag = 500
<data>
source = function
rows = 3000
expressions = "x^2 + sin(3*y)"
validation = 0.04
<network>
widths = 2, 8, 1
<optimizer>
learning_rate = 1e-3
batch = 96
<output1>
type = history
dstep = 1
<output2>
type = restart
dstep = {dstep}
keep = 2
"""

# Of the report, what a restart must not change.
REPORTED = ("exit_reason", "steps", "epochs", "train_loss", "validation_loss", "test_loss",
            "train_rmse", "validation_rmse", "test_rmse", "parameters_trained")
# Datasets and attributes that hold times or rates.
TIMES = re.compile(r"^/(elapsed|samples_per_second|state@elapsed)$")
# Groups with the facts of one launch (the step is compared in /state), and the digest,
# which covers the elapsed time.
LAUNCH = re.compile(r"^/(info|input)\b|^/@digest$")
TEXT_TIMES = slice(72, None)  # columns of the text history


class Failed(Exception):
    """What a test found, in one line."""


def check(holds, message):
    if not holds:
        raise Failed(message)


class Driver:
    """The program, the shim to preload, and how ranks are started."""

    def __init__(self, driver, shim, launcher):
        self.driver, self.shim, self.launcher = driver, shim, launcher
        self.started = []

    def stop(self):
        """Ends what a failed test has left running."""
        for process in self.started:
            if process.poll() is None:
                process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def command(self, directory, deck, arguments, ranks):
        start = [*self.launcher[:2], str(ranks), *self.launcher[2:]] if ranks > 1 else []
        return [*start, self.driver, "-q", "-d", str(directory), str(deck), *arguments]


class Run:
    """One run directory, to be launched as often as it takes."""

    def __init__(self, driver, scratch, name, deck, overrides=(), ranks=1):
        self.driver, self.ranks, self.overrides = driver, ranks, tuple(overrides)
        self.home = pathlib.Path(scratch) / name
        self.path = self.home / "out"
        self.temporary = self.home / "tmp"
        self.path.mkdir(parents=True)
        self.temporary.mkdir()
        self.deck = self.home / "deck"
        self.deck.write_text(deck)
        self.count, self.trace = self.home / "count", self.home / "trace"
        self.errors = self.home / "stderr"

    def start(self, *arguments, kill_at=None, partial=False):
        """Starts the driver; kill_at: number of the call not to be survived, 0: count."""
        environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false",
                           TMPDIR=str(self.temporary),
                           OMPI_MCA_btl_sm_backing_directory=str(self.temporary),
                           OMPI_MCA_mpi_yield_when_idle="1")
        for name in [name for name in environment if name.startswith("KAN_KILL")]:
            del environment[name]
        if kill_at is not None:
            environment.update(LD_PRELOAD=self.driver.shim, KAN_KILL_DIR=str(self.path),
                               KAN_KILL_AT=str(kill_at))
            if partial:
                environment["KAN_KILL_PARTIAL"] = "1"
            if kill_at == 0:
                environment["KAN_KILL_COUNT_FILE"] = str(self.count)
                environment["KAN_KILL_TRACE"] = str(self.trace)
        command = self.driver.command(self.path, self.deck, [*arguments, *self.overrides],
                                      self.ranks)
        with open(self.errors, "w") as errors:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=errors)
        self.driver.started.append(process)
        return process

    def launch(self, *arguments, **shim):
        """Status of a launch that is left to itself; negative: the signal that ended it."""
        return self.end(self.start(*arguments, **shim))

    def end(self, process, patience=PATIENCE):
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise Failed(f"{self.home.name}: still running after {patience} s") from None

    def restart(self):
        """How to go on."""
        return "-r", "latest" if self.checkpoints() else "auto"

    def finish(self, *overrides):
        """A launch that must come to the end of the run."""
        status = self.launch(*self.restart(), *overrides)
        check(status == 0, f"{self.home.name}: status {status}: {self.said()}")

    def said(self):
        return self.errors.read_text().strip()[-600:]

    def checkpoints(self):
        """Steps of the numbered checkpoints."""
        names = (re.fullmatch(r"run\.(\d{8})\.rst\.h5", path.name)
                 for path in self.path.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def reason(self, step):
        with h5py.File(self.path / f"run.{step:08d}.rst.h5") as file:
            return text(file["info"].attrs["reason"])

    def report(self):
        return json.loads((self.path / "run.report.json").read_text())

    def remove(self):
        shutil.rmtree(self.home)


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def hdf5_content(path):
    """{name: bytes} of all datasets and attributes that do not depend on the launch."""
    content = {}

    def attributes(name, thing):
        for key, value in thing.attrs.items():
            content[f"{name}@{key}"] = repr(value.tolist() if hasattr(value, "tolist")
                                            else value)

    with h5py.File(path, "r") as file:
        attributes("/", file)

        def visit(name, thing):
            attributes("/" + name, thing)
            if isinstance(thing, h5py.Dataset):
                content["/" + name] = (thing.dtype.str, thing.shape, thing[()].tobytes())

        file.visititems(visit)
    return {name: value for name, value in content.items()
            if not LAUNCH.match(name) and not TIMES.match(name)}


def text_content(path):
    lines = path.read_text().splitlines()
    return [line if line.startswith("#") else line[:TEXT_TIMES.start] for line in lines
            if not line.startswith("# restart")]


def everything(run):
    """All that a finished run leaves, by file, times and rates apart."""
    content = {}
    for path in sorted(run.path.iterdir()):
        if path.suffix == ".h5":
            content[path.name] = hdf5_content(path)
        elif path.suffix == ".hst":
            content[path.name] = text_content(path)
        elif path.name == "run.report.json":
            report = run.report()
            content[path.name] = {key: report[key] for key in REPORTED}
        else:
            content[path.name] = "there"
    return content


def last_state(content):
    """Of everything(): the last numbered checkpoint and the history."""
    last = max(name for name in content if re.fullmatch(r"run\.\d{8}\.rst\.h5", name))
    return {name: content[name] for name in (last, "run.hst.h5", "run.hst")}


def check_restart(run, more):
    """Lets an endless run that was stopped go on for some steps, and compares it with one
    that nobody stopped."""
    steps = run.checkpoints()[-1] + more
    run.finish(f"run/steps={steps}")
    straight = Run(run.driver, run.home.parent, run.home.name + "_undisturbed",
                   run.deck.read_text(), run.overrides, run.ranks)
    straight.finish(f"run/steps={steps}")
    check_same(last_state(everything(straight)), last_state(everything(run)), run.home.name)
    straight.remove()
    return steps


def check_same(expected, found, what):
    def first_difference(a, b):
        if isinstance(a, dict) and isinstance(b, dict):
            for key in sorted(set(a) | set(b)):
                if key not in a or key not in b:
                    return f"{key}: only in the {'second' if key in b else 'first'}"
                if a[key] != b[key]:
                    return f"{key}: {first_difference(a[key], b[key])}"
        if isinstance(a, list) and isinstance(b, list):
            for n, (x, y) in enumerate(zip(a, b)):
                if x != y:
                    return f"line {n + 1}: {x!r}, {y!r}"
            return f"{len(a)} lines, {len(b)} lines"
        return "other bytes" if isinstance(a, tuple) else f"{a!r}, {b!r}"

    check(expected == found, f"{what}: not as undisturbed: "
          f"{first_difference(expected, found) if expected != found else ''}")


def in_pairs(work, items):
    """[work(item)], two at a time, in order; the first failure ends it."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            return [future.result() for future in futures]
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def wait_for(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        check(time.monotonic() < end, f"no {what} within {seconds} s")
        time.sleep(0.005)


def rank_of(pid):
    """The rank that the launcher gave a process."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    names = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    return next(int(w.split(b"=")[1]) for w in words if w.startswith(names))


def rank_processes(process, ranks):
    """Process ids of the ranks that a launcher has started, in the order of their start."""
    def parents():
        found = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = stat.read_text().rpartition(")")
                found[int(stat.parent.name)] = (int(fields.split()[1]), name.split("(")[1])
        return found

    def ours():
        known = parents()

        def below(pid):
            while pid in known and pid != process.pid:
                pid = known[pid][0]
            return pid == process.pid

        return sorted(pid for pid, (_, name) in known.items()
                      if name == "kan_driver" and pid != process.pid and below(pid))

    wait_for(lambda: len(ours()) == ranks or process.poll() is not None, "ranks", 60)
    return ours()


def alive(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def main(cases):
    """driver_x.py CASE DRIVER SHIM [LAUNCHER FLAG [MORE...]]"""
    case, driver, shim, *launcher = sys.argv[1:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kan_faults_", dir=memory) as scratch:
        program = Driver(driver, shim, launcher)
        try:
            cases[case](program, scratch)
        except Failed as failed:
            sys.exit(f"FAILED: {failed}")
        finally:
            program.stop()
    print(f"passed in {time.monotonic() - start:.1f} s")
