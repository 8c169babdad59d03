"""Instructions per (sample x edge) of whole training steps, against stored figures.

  instructions.py --build NAME [--update] PROGRAM

PROGRAM is kan_bench for x86-64-v3, the widest vectors that valgrind knows. Every case of
instructions.json runs twice under callgrind, with one thread, for different numbers of updates;
the difference is what one epoch of 8 batches takes, so that start-up drops out. Counts, unlike
times, are the same on a busy machine, but they belong to a build, NAME: compiler, version, build
type, flags. With another one than the table was made with, nothing is compared.

Fails when a case takes 5 % more than its stored figure; says so when it takes 5 % less. --update
writes what was found, and is run by the target instructions_update. A new case is a new line of
the table, by its name in `kan_bench --list`, with 0.

Exit status: 0 all hold, 1 not, 77 nothing was compared, and why.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

TABLE = pathlib.Path(__file__).with_name("instructions.json")
TOLERANCE = 0.05
BATCHES = 8
NEEDED = {"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe"}  # of x86-64-v3


def why_not(program):
    """Why nothing can be counted here; None where it can."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"x86-64 programs do not run on {platform.machine()}"
    if shutil.which("valgrind") is None:
        return "there is no valgrind"
    cpu = pathlib.Path("/proc/cpuinfo").read_text().partition("flags")[2].partition("\n")[0]
    if missing := NEEDED - set(cpu.split()):
        return f"this CPU has no {', '.join(sorted(missing))}"
    if not program:
        return "valgrind came after this build was configured; configure it again"
    return None


def count(program, case, steps):
    """Instructions of a whole process."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program,
               "--match", case, "--engine", "tile", "--batches", str(BATCHES),
               "--steps", str(steps)]
    threads = {"OMP_NUM_THREADS": "1", "OMP_PROC_BIND": "false", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode != 0 or not found:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stderr}")
    return int(found[1])


def figure(program, case):
    """Instructions per (sample x edge); a name says 64-64-64_G5_k3_b1024_f32."""
    widths = [int(width) for width in case.split("_")[0].split("-")]
    edges = sum(a * b for a, b in zip(widths, widths[1:]))
    batch = int(re.search(r"_b(\d+)", case)[1])
    more = count(program, case, BATCHES + 1) - count(program, case, 1)
    return more / (BATCHES * batch * edges)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("program", nargs="?", default="")
    arguments = parser.parse_args()
    table = json.loads(TABLE.read_text())
    reason = why_not(arguments.program)
    if not reason and not arguments.update and arguments.build != table["build"]:
        reason = (f"the stored figures are of {table['build']}, "
                  f"this build is of {arguments.build}")
    if reason:
        print(f"skipped: {reason}")
        return 77
    print(f"{'instructions per (sample x edge)':42} {'stored':>8} {'found':>8} {'ratio':>7}")
    found, failed = {}, []
    for case, stored in table["cases"].items():
        found[case] = figure(arguments.program, case)
        ratio = found[case] / stored if stored else math.inf
        note = ""
        if ratio > 1 + TOLERANCE:
            failed.append(case)
            note = "more than stored"
        elif ratio < 1 - TOLERANCE:
            note = "lower the stored figure"
        print(f"{case:42} {stored:8.3f} {found[case]:8.3f} {ratio:7.4f}  {note}", flush=True)
    if arguments.update:
        table["build"] = arguments.build
        table["cases"] = {case: round(value, 3) for case, value in found.items()}
        TABLE.write_text(json.dumps(table, indent=1) + "\n")
        print(f"written: {TABLE}")
        return 0
    if failed:
        print(f"{len(failed)} of {len(found)} cases take over {TOLERANCE:.0%} more instructions "
              "than stored. If that is meant, build the target instructions_update.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
