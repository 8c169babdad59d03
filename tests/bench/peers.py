#!/usr/bin/env python3
"""Time kokkan's training against other KAN libraries and an MLP, over shapes and threads.

For each workload and number of threads, kokkan and the peers train in turn, round after round,
pinned to the same cores, so that a noisy moment of the machine hits all of them alike. A peer's
step is batch gather, forward, loss, backward and Adam. kokkan is kan_bench, which does the same
and keeps records; for inputs/reference.deck it is kan_driver, a process a round, whose rate also
holds its shuffles, history and checkpoints. Peers that cannot be imported, or take more than a
second for a step, are named with the reason.

  python tests/bench/peers.py                         everything, 5 rounds, one thread
  python tests/bench/peers.py --workloads small,wide --threads 1,2 --peers inkan,mlp --rounds 3

It runs with your own Python (3.10 or newer), outside scripts/toolchain, in an environment like
this, with PEERS outside the checkout:

  python -m venv PEERS && . PEERS/bin/activate
  pip install torch pykan inkan jaxkan matplotlib scikit-learn tqdm pandas pyyaml
  export PYTHONPATH=EFFICIENT_KAN/src:FAST_KAN

torch      the registry's package for Linux is built for CUDA, trains on a CPU all the same,
           and brings several GB of CUDA libraries. To do without them, where a CUDA toolkit
           of the same major version is on the machine:
             pip install --no-deps torch nvidia-nccl-cu13 nvidia-nvshmem-cu13
             pip install --no-deps nvidia-cufile nvidia-cusparselt-cu13
             pip install numpy filelock typing-extensions sympy networkx jinja2 fsspec setuptools
             pip install --no-deps pykan inkan
             pip install jaxkan matplotlib scikit-learn tqdm pandas pyyaml
             export LD_LIBRARY_PATH=CUDA_TOOLKIT/lib64
           and nvidia-cudnn-cu13 in the first line, unless cuDNN lies beside the toolkit. What
           `python -c "import torch"` still misses, it names. (Done so with torch 2.15 and the
           toolkit 13.0; pip's complaints about the packages left out are harmless.)
pykan      names none of its dependencies: they are the last five packages above.
inkan      compiles its basis with torch.compile, which needs g++; inkan-eager does not.
jaxkan     brings jax, flax and optax.
efficient-kan, FastKAN   are not in the registry: clone Blealtan/efficient-kan and ZiyaoLi/fast-kan
           outside this checkout and name them on PYTHONPATH in this order, since the second
           holds an older copy of the first.

Exit status: 0 done, 1 kokkan could not be timed, 2 usage.
"""

import argparse
import datetime
import json
import os
import sys
import tempfile
from pathlib import Path

SCRIPT = Path(__file__).resolve()
ROOT = SCRIPT.parents[2]
sys.path.insert(0, str(SCRIPT.parent))

from peerbench import child, machine, process, report  # noqa: E402
from peerbench.driver import Driver  # noqa: E402
from peerbench.table import PEERS  # noqa: E402
from peerbench.workload import WORKLOADS  # noqa: E402


def options():
    names = ",".join(p.name for p in PEERS)
    workloads = ",".join(w.name for w in WORKLOADS)
    cores = sorted(os.sched_getaffinity(0), reverse=True)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--bin", default=ROOT / "build/openmp/bin", help="folder of programs, %(default)s")
    add("--deck", default=ROOT / "inputs/reference.deck", help="default %(default)s")
    add("--workloads", default=workloads, help=f"some of {workloads}")
    add("--threads", default="1", help="numbers of threads, as 1,2 (1); the last cores are used")
    add("--epochs", type=int, default=40, help="of kan_driver in a round (40)")
    add("--rounds", type=int, default=5, help="(5)")
    add("--seconds", type=float, default=2.0, help="of training in a round (2)")
    add("--peers", default=names, help=f"some of {names}")
    add(
        "--malloc",
        choices=["default", "keeps", "both"],
        default="both",
        help="C library's defaults, freed memory kept in the process, or the better of both (both)",
    )
    add("--no-kokkan", action="store_true", help="the peers alone")
    add("--markdown", metavar="FILE", help="write the tables there too")
    add("--json", metavar="FILE", help="write every number there")
    add("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    for key, table in (("peers", PEERS), ("workloads", WORKLOADS)):
        wanted = [name for name in getattr(chosen, key).split(",") if name]
        unknown = set(wanted) - {entry.name for entry in table}
        if unknown:
            parser.error(f"--{key} has no {', '.join(sorted(unknown))}")
        setattr(chosen, key, [entry for entry in table if entry.name in wanted])
    chosen.threads = [int(count) for count in chosen.threads.split(",")]
    if min(chosen.epochs, chosen.rounds, chosen.seconds, *chosen.threads) <= 0:
        parser.error("--epochs, --rounds, --seconds and --threads must be positive")
    if max(chosen.threads) > len(cores):
        parser.error(f"--threads: this process may use {len(cores)} cores")
    chosen.cores = {count: set(cores[:count]) for count in chosen.threads}
    return chosen


def say(text):
    print(text, file=sys.stderr, flush=True)


def start(chosen, workload, cores, folder):
    """Kokkan or None, the peers, and why some are missing; Lost without kokkan."""
    ours, peers, missing = None, [], {}
    if not chosen.no_kokkan and workload.case:
        ours = process.kan_bench(Path(chosen.bin, "kan_bench"), workload.case, cores, folder)
        ours.calibrate(chosen.seconds)
    elif not chosen.no_kokkan:
        program = Path(chosen.bin, "kan_driver")
        ours = Driver(program, chosen.deck, workload, chosen.epochs, cores, folder)
    settings = list(process.SETTINGS)
    if chosen.malloc != "both":
        settings = [f"malloc {chosen.malloc}"]
    for entry in chosen.peers:
        for setting in settings:
            try:
                if entry.name in workload.left_out:
                    raise process.Lost(workload.left_out[entry.name])
                say(f"starting {entry.name}, {setting}")
                peer = process.peer(SCRIPT, entry, workload, setting, cores, folder)
                peers.append(peer.calibrate(chosen.seconds))
            except process.Lost as lost:
                missing[entry.name] = str(lost)
                say(f"{entry.name}: {lost}")
                break
    return ours, peers, missing


def run_rounds(rounds, ours, peers, missing):
    """Drops the contestants that are lost; the cores that others used meanwhile."""
    others, own = machine.Others(), 0.0
    for count in range(rounds):
        say(f"round {count + 1} of {rounds}")
        for contestant in [ours, *peers] if ours else list(peers):
            try:
                contestant.round()
                own += contestant.results[-1]["cpu"]
            except process.Lost as lost:
                missing[contestant.name] = str(lost)
                say(f"{contestant.name}: {lost}")
                if contestant is ours:
                    raise
                peers.remove(contestant)
    return others.cores(own)


def table(chosen, workload, threads):
    """One workload with so many threads: the record that report.py prints."""
    say(f"{workload.name}, {threads} thread(s)")
    cores, load = chosen.cores[threads], machine.load()
    date = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        ours, peers, missing = start(chosen, workload, cores, folder)
        try:
            other_cores = run_rounds(chosen.rounds, ours, peers, missing)
        finally:
            for contestant in [ours, *peers] if ours else peers:
                contestant.close()
    return {
        "date": date.strftime("%Y-%m-%d %H:%M UTC"),
        "workload": workload.name,
        "title": str(workload),
        "edges": workload.edges,
        "threads": threads,
        "cores": sorted(cores),
        "rounds": chosen.rounds,
        "load_before": load,
        "load_after": machine.load(),
        "other_cores": round(other_cores, 3),
        "ours": report.ours(ours) if ours else None,
        "peers": [report.peer(p, workload) for p in peers],
        "missing": missing,
    }


def main():
    chosen = options()
    if chosen.child:
        return child.serve(chosen.child, chosen.workloads[0])
    result, status = {"machine": machine.describe(), "tables": []}, 0
    for threads in chosen.threads:
        for workload in chosen.workloads:
            try:
                result["tables"].append(table(chosen, workload, threads))
            except process.Lost as lost:
                say(f"peers.py: kokkan: {lost}; --no-kokkan times the peers alone")
                status = 1
                continue
            # each table is written as soon as it is there
            if chosen.markdown:
                Path(chosen.markdown).write_text(report.markdown(result))
            if chosen.json:
                Path(chosen.json).write_text(json.dumps(result, indent=1) + "\n")
    print(report.markdown(result), end="")
    return status


if __name__ == "__main__":
    sys.exit(main())
