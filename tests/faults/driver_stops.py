"""Stops kan_driver by signals, files and the time limit: it ends with 75 and a checkpoint
of the step it stands at, and a restart has the bits of a run that nobody stopped. Requests
for output are answered while the run goes on.

  driver_stops.py CASE DRIVER SHIM [LAUNCHER FLAG [MORE...]]

  signals  SIGTERM, SIGUSR2, the first SIGINT, SIGUSR1
  limits   files stop_now and output_now, -t
  ranks    SIGTERM and SIGUSR1 for one of two ranks
"""

import os
import signal
import time

from driver_runs import (ENDLESS, LONG, Run, check, check_restart, in_pairs, main,
                         rank_processes, wait_for)

STOPPED = 75
MORE = 700  # steps after a restart
# No checkpoint by cadence: those found are the ones asked for.
DECK = LONG.format(epochs=ENDLESS, dstep=1000000000)


def training(run, process):
    """Waits for the first line of progress of this launch."""
    log = run.path / "run.log"
    wait_for(lambda: process.poll() is not None
             or log.exists() and "\nstep=" in log.read_text(), "progress")
    check(process.poll() is None, f"{run.home.name}: ended on its own: {run.said()}")


def check_stopped(run, status, exit_reason, reason):
    """75, a report that says why, a checkpoint of the last step; the first launch of a
    run."""
    what = run.home.name
    check(status == STOPPED, f"{what}: status {status}: {run.said()}")
    report = run.report()
    check(report["exit_reason"] == exit_reason and report["exit_code"] == STOPPED,
          f"{what}: {report}")
    steps = run.checkpoints()
    check(steps and steps[-1] == report["steps"] > 0, f"{what}: {steps}, {report['steps']}")
    check(run.reason(steps[-1]) == reason, f"{what}: reason {run.reason(steps[-1])}")
    check(not (run.path / "run.lock").exists(), f"{what}: the lock is left")


def check_answered(run, process):
    """A checkpoint by request appears, and training goes on, as the rows past it show."""
    what = run.home.name
    wait_for(lambda: run.checkpoints() or process.poll() is not None, "checkpoint")
    check(run.checkpoints(), f"{what}: ended without one: {run.said()}")
    step = run.checkpoints()[0]
    check(run.reason(step) == "request", f"{what}: reason {run.reason(step)}")
    text = run.path / "run.hst"

    def newest():
        lines = text.read_text().splitlines()
        return max((int(line.split()[0]) for line in lines[-3:-1] if line[0] != "#"),
                   default=0)

    wait_for(lambda: newest() > step or process.poll() is not None, "rows")
    check(process.poll() is None, f"{what}: ended: {run.said()}")


def by_signals(driver, scratch):
    def stop(number):
        run = Run(driver, scratch, number.name, DECK)
        process = run.start("-r", "auto")
        training(run, process)
        process.send_signal(number)
        check_stopped(run, run.end(process), "signal", "signal")
        check_restart(run, MORE)

    def save():
        run = Run(driver, scratch, "SIGUSR1", DECK)
        process = run.start()
        training(run, process)
        process.send_signal(signal.SIGUSR1)
        check_answered(run, process)
        process.send_signal(signal.SIGTERM)
        check_stopped(run, run.end(process), "signal", "signal")
        check_restart(run, MORE)

    def without_checkpoints():
        """A block that writes nothing does not take the state from a stopped run."""
        run = Run(driver, scratch, "disabled", DECK, ["output2/enabled=false"])
        process = run.start()
        training(run, process)
        process.send_signal(signal.SIGTERM)
        check_stopped(run, run.end(process), "signal", "signal")

    stops = (signal.SIGTERM, signal.SIGUSR2, signal.SIGINT)
    in_pairs(lambda work: work(), [save, without_checkpoints,
                                   *(lambda number=number: stop(number) for number in stops)])
    print("stopped by", *(number.name for number in stops), "and saved by SIGUSR1")


def by_limits(driver, scratch):
    def stop_now():
        run = Run(driver, scratch, "stop_now", DECK)
        process = run.start()
        training(run, process)
        (run.path / "stop_now").touch()
        check_stopped(run, run.end(process), "stop_now", "request")
        check(not (run.path / "stop_now").exists(), "stop_now is left")
        (run.path / "stop_now").touch()  # forgotten before a start: stops nothing
        check_restart(run, MORE)

    def output_now():
        run = Run(driver, scratch, "output_now", DECK)
        process = run.start()
        training(run, process)
        (run.path / "output_now").touch()
        check_answered(run, process)
        check(not (run.path / "output_now").exists(), "output_now is left")
        process.terminate()
        check_stopped(run, run.end(process), "signal", "signal")
        check_restart(run, MORE)

    def time_limit():
        limit = 3
        run = Run(driver, scratch, "walltime", DECK)
        start = time.monotonic()
        status = run.launch("-t", str(limit))
        seconds = time.monotonic() - start
        check_stopped(run, status, "walltime", "walltime")
        check(seconds > 1, f"-t {limit}: stopped after {seconds:.2f} s")
        # The limit of one launch is not that of the next; that one takes longer.
        process = run.start(*run.restart())
        start = time.monotonic()
        wait_for(lambda: process.poll() is not None
                 or time.monotonic() - start > limit + 1, "end of the limit")
        check(process.poll() is None, "the limit of a launch holds for the restart")
        process.terminate()
        check(run.end(process) == STOPPED, f"walltime: {run.said()}")
        check_restart(run, MORE)

    in_pairs(lambda work: work(), (time_limit, stop_now, output_now))
    print("stop_now, output_now and -t as documented")


def by_signals_to_one_rank(driver, scratch):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        run = Run(driver, scratch, number.name, DECK, ranks=2)
        process = run.start()
        ranks = rank_processes(process, 2)
        training(run, process)
        os.kill(ranks[1], number)
        if number == signal.SIGUSR1:
            check_answered(run, process)
            os.kill(ranks[0], signal.SIGTERM)
        check_stopped(run, run.end(process), "signal", "signal")
        check_restart(run, MORE)
    print("one rank's SIGTERM stopped both, one rank's SIGUSR1 was answered")


main({"signals": by_signals, "limits": by_limits, "ranks": by_signals_to_one_rank})
