"""kan_driver as one more contestant: a process a round, pinned to the same core as the peers.

Its rate is samples_per_second of NAME.report.json: the rows of all updates over the time from the
start of the first step to the end of the last, with shuffles, history and checkpoints inside.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from . import workload
from .child import Lost, one_core


class Driver:
    name = "kan_driver"

    def __init__(self, root, driver, deck, epochs, core, folder):
        runner = Path(root, "scripts", "toolchain")
        self.command = [str(runner), "run"] if runner.exists() else []
        self.command.append(str(Path(driver).absolute()))
        self.deck, self.epochs, self.core, self.folder = deck, epochs, core, folder
        self.results = []
        self.root = root
        if not Path(driver).exists():
            raise Lost(f"{driver} does not exist: build it, or name another with --driver")
        self.version = self._run(["--version"])[0].strip()
        # one epoch to find mistakes early, and to have everything in the disk's cache
        self._train(epochs=1)

    def round(self):
        self.results.append(self._train(self.epochs))

    def _train(self, epochs):
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            arguments = [str(Path(self.deck).absolute()), "-d", place, "--force", "-q"]
            _, wall, usage = self._run([*arguments, f"run/epochs={epochs}"])
            reports = list(Path(place).glob("*.report.json"))
            if len(reports) != 1:
                raise Lost(f"kan_driver left {len(reports)} reports (NAME.report.json), not one")
            report = json.loads(reports[0].read_text())
        expected = {
            "steps": epochs * workload.STEPS_PER_EPOCH,
            "parameters_trained": workload.PARAMETERS,
        }
        found = {key: report.get(key) for key in expected}
        if found != expected:
            raise Lost(f"{self.deck} is not the peers' workload: {found} instead of {expected}")
        rows = epochs * workload.ROWS
        return {
            "rows": rows,
            "wall": rows / report["samples_per_second"],
            "peak": report["peak_memory_bytes"] / 2**20,
            "loss": report["train_loss"],
            # of the whole process, start and end included
            "process_wall": wall,
            "cpu": usage.ru_utime + usage.ru_stime,
        }

    def _run(self, arguments):
        """Standard output, wall seconds and resource usage of one run; Lost where it fails."""
        environment = dict(os.environ, **one_core(), OMP_PROC_BIND="close")
        with (
            tempfile.TemporaryFile("w+", dir=self.folder) as out,
            tempfile.TemporaryFile("w+", dir=self.folder) as errors,
        ):
            start = time.perf_counter()
            process = subprocess.Popen(
                [*self.command, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                cwd=self.root,
                env=environment,
                preexec_fn=lambda: os.sched_setaffinity(0, {self.core}),
            )
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - start
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                errors.seek(0)
                tail = " ".join(errors.read().split())[-300:]
                raise Lost(f"kan_driver ended with status {process.returncode}: {tail}")
            out.seek(0)
            return out.read(), wall, usage
