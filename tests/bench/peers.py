#!/usr/bin/env python3
"""Time kan_driver against other KAN libraries: whole training, one core, one run.

The workload is inputs/reference.deck. kan_driver and the peers train it in turn, round after
round, pinned to the same core with one thread each, so that a noisy moment of the machine hits all
of them alike. A peer's step is batch gather, forward, loss, backward and Adam; kan_driver's rate
also holds its shuffles, history and checkpoints. Peers that cannot be imported are named with
the reason.

  python tests/bench/peers.py                         everything, 5 rounds
  python tests/bench/peers.py --peers inkan,mlp --rounds 3 --epochs 4

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

Exit status: 0 done, 1 kan_driver could not be timed, 2 usage.
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

from peerbench import child, machine, report  # noqa: E402
from peerbench.driver import Driver  # noqa: E402
from peerbench.table import PEERS  # noqa: E402


def options():
    names = ",".join(p.name for p in PEERS)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--driver", default=ROOT / "build/openmp/bin/kan_driver", help="default %(default)s")
    add("--deck", default=ROOT / "inputs/reference.deck", help="default %(default)s")
    add("--epochs", type=int, default=40, help="of kan_driver in a round (40)")
    add("--rounds", type=int, default=5, help="(5)")
    add("--seconds", type=float, default=2.0, help="of training for a peer in a round (2)")
    add("--peers", default=names, help=f"some of {names}")
    add(
        "--malloc",
        choices=["default", "keeps", "both"],
        default="both",
        help="C library's defaults, freed memory kept in the process, or the better of both (both)",
    )
    add("--core", type=int, default=max(os.sched_getaffinity(0)), help="(the last one)")
    add("--no-driver", action="store_true", help="the peers alone")
    add("--markdown", metavar="FILE", help="write the table there too")
    add("--json", metavar="FILE", help="write every number there")
    add("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    chosen.peers = [name for name in chosen.peers.split(",") if name]
    unknown = set(chosen.peers) - {p.name for p in PEERS}
    if unknown:
        parser.error(f"no peer is called {', '.join(sorted(unknown))}; there are {names}")
    if min(chosen.epochs, chosen.rounds, chosen.seconds) <= 0:
        parser.error("--epochs, --rounds and --seconds must be positive")
    if chosen.core not in os.sched_getaffinity(0):
        parser.error(f"core {chosen.core} is not among {sorted(os.sched_getaffinity(0))}")
    return chosen


def say(text):
    print(text, file=sys.stderr, flush=True)


def start(chosen, folder):
    """Driver or None, children, and why peers could not be started; Lost without the driver."""
    driver, children, missing = None, [], {}
    if not chosen.no_driver:
        driver = Driver(ROOT, chosen.driver, chosen.deck, chosen.epochs, chosen.core, folder)
    settings = list(child.SETTINGS)
    if chosen.malloc != "both":
        settings = [f"malloc {chosen.malloc}"]
    for peer in (p for p in PEERS if p.name in chosen.peers):
        for setting in settings:
            say(f"starting {peer.name}, {setting}")
            try:
                children.append(
                    child.Child(SCRIPT, peer, setting, chosen.core, chosen.seconds, folder)
                )
            except child.Lost as lost:
                missing[peer.name] = str(lost)
                say(f"{peer.name}: {lost}")
                break
    return driver, children, missing


def run_rounds(chosen, driver, children, missing):
    """The driver, None if it failed, and the cores others used. Drops children that are lost."""
    others = machine.Others()
    for count in range(chosen.rounds):
        say(f"round {count + 1} of {chosen.rounds}")
        for contestant in [driver, *children] if driver else list(children):
            try:
                contestant.round()
            except child.Lost as lost:
                missing[contestant.name] = str(lost)
                say(f"{contestant.name}: {lost}")
                if contestant is driver:
                    driver = None
                else:
                    children.remove(contestant)
    timed = [*children, driver] if driver else children
    own = sum(result["cpu"] for contestant in timed for result in contestant.results)
    return driver, others.cores(own)


def main():
    chosen = options()
    if chosen.child:
        return child.serve(chosen.child, chosen.core)
    load_before = machine.load()
    date = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        try:
            driver, children, missing = start(chosen, folder)
        except child.Lost as lost:
            say(f"peers.py: {lost}; --no-driver times the peers alone")
            return 1
        try:
            driver, other_cores = run_rounds(chosen, driver, children, missing)
        finally:
            for contestant in children:
                contestant.close()
    result = {
        "date": date.strftime("%Y-%m-%d %H:%M UTC"),
        "machine": machine.describe(),
        "load_before": load_before,
        "load_after": machine.load(),
        "other_cores": round(other_cores, 3),
        "rounds": chosen.rounds,
        "core": chosen.core,
        "deck": Path(chosen.deck).name,
        "epochs": chosen.epochs,
        "ours": report.ours(driver) if driver else None,
        "peers": [report.contestant(c) for c in children],
        "missing": missing,
    }
    text = report.markdown(result)
    print(text, end="")
    if chosen.markdown:
        Path(chosen.markdown).write_text(text)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(result, indent=1) + "\n")
    return 1 if "kan_driver" in missing else 0


if __name__ == "__main__":
    sys.exit(main())
