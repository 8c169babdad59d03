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

from .process import ROOT, Lost, in_toolchain, pin, thread_count


class Driver:
    name = "kan_driver"

    def __init__(self, program, deck, workload, epochs, cores, folder):
        self.command = in_toolchain(program)
        self.deck, self.workload, self.epochs = Path(deck).absolute(), workload, epochs
        self.cores, self.folder, self.results = cores, folder, []
        version = self._run(["--version"])[0].split()[-1]
        self.about = {"parameters": workload.parameters, "versions": [f"kokkan {version}"]}
        # one epoch to find mistakes early, and to have everything in the disk's cache
        self._train(epochs=1)

    def round(self):
        self.results.append(self._train(self.epochs))

    def close(self):
        pass  # no process lives between rounds

    def _train(self, epochs):
        with tempfile.TemporaryDirectory(dir=self.folder) as place:
            arguments = [str(self.deck), "-d", place, "--force", "-q"]
            _, wall, usage = self._run([*arguments, f"run/epochs={epochs}"])
            reports = list(Path(place).glob("*.report.json"))
            if len(reports) != 1:
                raise Lost(f"kan_driver left {len(reports)} reports (NAME.report.json), not one")
            report = json.loads(reports[0].read_text())
        expected = {
            "steps": epochs * self.workload.steps_per_epoch,
            "parameters_trained": self.workload.parameters,
        }
        found = {key: report.get(key) for key in expected}
        if found != expected:
            raise Lost(f"{self.deck} is not the peers' workload: {found} instead of {expected}")
        rows = epochs * self.workload.rows
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
        environment = dict(os.environ, **thread_count(len(self.cores)), OMP_PROC_BIND="close")
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
                cwd=ROOT,
                env=environment,
                preexec_fn=pin(self.cores),
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
