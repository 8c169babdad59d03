"""kan_driver on several ranks: some of which sleep, and some of which are not what they
should be. Each error is one line, from rank 0, that names the rank which differs.

  driver_groups.py CASE DRIVER SHIM LAUNCHER FLAG [MORE...]

  work     parallel/ranks, placement, ranks_per_node: results, errors, exit codes
  asleep   signals to a rank that sleeps, its CPU time, and the time limit
  sleeper  a rank that sleeps is stopped: the others end within the deadline
  alike    other arguments, another executable, other data on one rank; four processes
           that were to be four ranks
"""

import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import time

from driver_runs import (ENDLESS, LONG, SMALL, Run, check, check_same, everything, main,
                         rank_of, rank_processes, wait_for)

STOPPED = 75
DECK = LONG.format(epochs=ENDLESS, dstep=1000000000)
NO_WAIT = 6  # seconds: an end that waits for no deadline


def log(run):
    path = run.path / "run.log"
    return path.read_text() if path.exists() else ""


def check_error(run, status, code, *parts):
    """That code, and one line of ours on stderr that holds all the parts."""
    # mpirun may put a zero byte in front.
    said = [line.strip("\0") for line in run.errors.read_text().splitlines()
            if "kan_driver: error" in line]
    what = f"{run.home.name}: status {status}, {said or run.said()}"
    check(status == code, what)
    check(len(said) == 1 and said[0].startswith(f"kan_driver: error[{code}] rank 0/"), what)
    for part in parts:
        check(re.search(part, said[0]), f"{what}: no '{part}'")


def some_ranks_work(driver, scratch):
    def finished(name, ranks, *overrides):
        run = Run(driver, scratch, name, SMALL,
                  ["parallel/reproducible=true", "parallel/shard_rows=4", *overrides], ranks)
        status = run.launch()
        check(status == 0, f"{name}: status {status}: {run.said()}")
        return run

    two = finished("two", 2)
    check("ranks: 2 on 1 node;" in log(two), log(two))
    for name, placement, said in (
            ("packed", [], "2 of 4 on 1 node, packed; 2 asleep;"),
            ("spread", ["parallel/placement=spread", "parallel/ranks_per_node=2"],
             "2 of 4 on 2 emulated nodes, spread; 2 asleep;"),
            ("pair", ["parallel/ranks_per_node=3"],
             "2 of 4 on 1 emulated node, packed; 2 asleep;")):
        run = finished(name, 4, "parallel/ranks=2", *placement)
        check(f"ranks: {said} communication: mpi: 2 ranks" in log(run), log(run))
        check_same(everything(two), everything(run), name)
    one = finished("one", 2, "parallel/ranks=1")
    check_same(everything(two), everything(one), "one")

    for name, ranks, overrides, parts in (
            ("many", 4, ["parallel/ranks=5"],
             ["parallel/ranks: 5 ranks asked for, the job has 4 ranks on 1 node"]),
            ("spread_here", 4, ["parallel/placement=spread"],
             ["parallel/placement = spread", "has 4 ranks on 1 node"])):
        run = Run(driver, scratch, name, SMALL, overrides, ranks)
        check_error(run, run.launch(), 2, *parts)
        check(not any(run.path.iterdir()), f"{name}: left files")
    run = Run(driver, scratch, "diverges", SMALL,
              ["parallel/ranks=2", "optimizer/type=sgd", "optimizer/learning_rate=1e30"], 4)
    check_error(run, run.launch(), 7)
    print("2 of 4 and 1 of 2 ranks have the results of 2; errors end all")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def a_sleeping_rank(driver, scratch):
    def training(run, process):
        wait_for(lambda: process.poll() is not None or "\nstep=" in log(run), "progress")
        check(process.poll() is None, f"{run.home.name}: ended on its own: {run.said()}")

    def check_stopped(run, status, reason):
        what = run.home.name
        check(status == STOPPED, f"{what}: status {status}: {run.said()}")
        report = run.report()
        check(report["exit_reason"] == reason, f"{what}: {report}")
        steps = run.checkpoints()
        check(steps and steps[-1] == report["steps"] > 0, f"{what}: {steps}")

    most = 0.0
    for ranks in (2, 4):
        run = Run(driver, scratch, f"signals{ranks}", DECK, [f"parallel/ranks={ranks // 2}"],
                  ranks)
        process = run.start()
        training(run, process)
        pids = sorted(rank_processes(process, ranks), key=rank_of)
        before, start = [cpu_seconds(pid) for pid in pids], time.monotonic()
        time.sleep(3)
        seconds = time.monotonic() - start
        shares = [(cpu_seconds(pid) - old) / seconds for pid, old in zip(pids, before)]
        asleep = max(shares[ranks // 2:])
        check(asleep < 0.05, f"CPU of the ranks: {shares}")
        check(min(shares[:ranks // 2]) > 0.2, f"CPU of the ranks: {shares}")
        most = max(most, asleep)

        os.kill(pids[-1], signal.SIGUSR1)
        wait_for(lambda: run.checkpoints() or process.poll() is not None, "checkpoint", 5)
        check(process.poll() is None, f"{run.home.name}: ended: {run.said()}")
        check(run.reason(run.checkpoints()[0]) == "request", run.home.name)
        os.kill(pids[-1], signal.SIGTERM)
        check_stopped(run, run.end(process, 10), "signal")
        steps = run.checkpoints()[-1]
        # It goes on with all ranks at work.
        check(run.launch("-r", "latest", "parallel/ranks=all", f"run/steps={steps + 50}") == 0,
              run.said())
        check(run.checkpoints()[-1] == steps + 50, f"{run.checkpoints()}")

    run = Run(driver, scratch, "limit", DECK, ["parallel/ranks=3"], 4)
    check_stopped(run, run.launch("-t", "4"), "walltime")
    run = Run(driver, scratch, "worker", DECK, ["parallel/ranks=2"], 3)
    process = run.start()
    training(run, process)
    os.kill(sorted(rank_processes(process, 3), key=rank_of)[1], signal.SIGUSR2)
    check_stopped(run, run.end(process), "signal")
    print(f"a sleeping rank's signals were heard; at most {100 * most:.2f} % of a CPU")


def a_sleeper_that_is_stopped(driver, scratch):
    """The ranks that work come to their end, and do not wait for it for ever."""
    run = Run(driver, scratch, "sleeper", DECK, ["parallel/ranks=2", "parallel/timeout=2"], 3)
    process = run.start("-t", "4")
    pids = {rank_of(pid): pid for pid in rank_processes(process, 3)}
    wait_for(lambda: "\nstep=" in log(run) or process.poll() is not None, "progress")
    os.kill(pids[2], signal.SIGSTOP)
    check_error(run, run.end(process, 30), 6, "a rank that sleeps did not arrive within 2 s")
    check(run.checkpoints(), "sleeper: no checkpoint")


def launch_apart(run, ranks, most, last):
    """A launch in which the last rank differs; most, last: (directory, program, arguments).
    A script starts the ranks, as not every mpirun can start several programs."""
    def command(directory, program, arguments):
        words = [str(program), "-q", "-d", str(run.path), str(run.deck), *arguments]
        return f"cd {shlex.quote(str(directory))} && exec {shlex.join(words)}"

    script = run.home / "start.sh"
    script.write_text("#!/bin/sh\n"
                      f"if [ \"${{PMIX_RANK:-$PMI_RANK}}\" = {ranks - 1} ]; then\n"
                      f"  {command(*last)}\nfi\n{command(*most)}\n")
    script.chmod(0o755)
    launcher = run.driver.launcher
    environment = dict(os.environ, OMP_NUM_THREADS="1", OMP_PROC_BIND="false",
                       OMPI_MCA_mpi_yield_when_idle="1")
    start = time.monotonic()
    with open(run.errors, "w") as errors:
        process = subprocess.Popen([*launcher[:2], str(ranks), *launcher[2:], script],
                                   env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=errors)
    run.driver.started.append(process)
    status = run.end(process)
    check(time.monotonic() - start < NO_WAIT or status == 0,
          f"{run.home.name}: took {time.monotonic() - start:.1f} s")
    return status


def ranks_that_differ(driver, scratch):
    program = pathlib.Path(driver.driver)
    copy = pathlib.Path(scratch) / "other_build"
    shutil.copy(program, copy)
    with open(copy, "ab") as file:
        file.write(b"\n")
    for ranks in (2, 4):
        odd = f"rank {ranks - 1} of {ranks}"

        run = Run(driver, scratch, f"arguments{ranks}", SMALL)
        status = launch_apart(run, ranks, (run.home, program, ["run/epochs=2"]),
                              (run.home, program, ["run/epochs=3"]))
        check_error(run, status, 2, f"command line: {odd} has '.*run/epochs=3'",
                    "rank 0 has '.*run/epochs=2'")
        check(not any(run.path.iterdir()), f"{run.home.name}: left files")

        run = Run(driver, scratch, f"program{ranks}", SMALL)
        parts = (run.home, program, []), (run.home, copy, [])
        values = rf"executable: {odd} has [0-9a-f]{{16}} \({re.escape(str(copy))}\), " \
                 rf"rank 0 has [0-9a-f]{{16}} \({re.escape(str(program))}\)"
        check(launch_apart(run, ranks, *parts) == 0, run.said())
        check(re.search("warning: " + values, log(run)), log(run))
        run = Run(driver, scratch, f"reproducible{ranks}", SMALL + "<parallel>\n"
                  "reproducible = true\nshard_rows = 4\n")
        check_error(run, launch_apart(run, ranks, *parts), 9, values)
        check(not any(run.path.iterdir()), f"{run.home.name}: left files")

        run = Run(driver, scratch, f"data{ranks}", re.sub(
            r"<data>.*<network>",
            "<data>\nsource = csv\nfile = /proc/self/cwd/rows.csv\ntargets = 3\n<network>",
            SMALL, flags=re.S))
        for place, last in (("here", 3), ("there", 4)):
            (run.home / place).mkdir()
            rows = [f"{n % 7},{n % 5},{n % 3}" for n in range(299)] + [f"1,2,{last}"]
            (run.home / place / "rows.csv").write_text("\n".join(rows) + "\n")
        status = launch_apart(run, ranks, (run.home / "here", program, []),
                              (run.home / "there", program, []))
        check_error(run, status, 3, f"digest of the data: {odd} has [0-9a-f]{{32}} ",
                    r"rank 0 has [0-9a-f]{32} \(300 training rows\)")
        check(not run.checkpoints(), f"{run.home.name}: trained")

    # A launcher that the MPI library does not know starts four jobs of one rank.
    run = Run(driver, scratch, "four", SMALL)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("OMPI_", "PMI", "PRTE_"))}
    environment.update(SLURM_NTASKS="4", OMP_NUM_THREADS="1",
                       OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    processes = []
    for task in range(4):
        processes.append(subprocess.Popen(
            driver.command(run.path, run.deck, [], 1), stdin=subprocess.DEVNULL,
            env=dict(environment, SLURM_PROCID=str(task)), stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True))
    driver.started += processes
    for process in processes:
        said = process.communicate(timeout=60)[1]
        run.errors.write_text(said)
        check_error(run, process.returncode, 9, "SLURM_NTASKS = 4")
    check(not any(run.path.iterdir()), "four: left files")
    print("other arguments, executable and data on one of 2 and 4 ranks are found, and 4 "
          "processes that are not ranks")


main({"work": some_ranks_work, "asleep": a_sleeping_rank, "sleeper": a_sleeper_that_is_stopped,
       "alike": ranks_that_differ})
