"""Ranks that no longer answer: the others end the job within the deadline (parallel/timeout)
with code 6, name the ranks that did not arrive and the step, and a restart from the last
checkpoint has the bits of a run that nobody disturbed.

  driver_ranks.py CASE DRIVER SHIM [LAUNCHER FLAG [MORE...]]

  stopped  SIGSTOP for one of 2 and of 4 ranks
  dead     SIGKILL for one of 2 and of 4 ranks where the launcher leaves the others alone
"""

import os
import pathlib
import re
import signal
import time

from driver_runs import (ENDLESS, LONG, Run, alive, check, check_restart, main,
                         rank_processes, wait_for)

TIMEOUT = 2  # seconds, parallel/timeout
# The deadline, the grace in which ranks answer an alarm, and the launcher's own end.
WITHIN = TIMEOUT + 20
DECK = LONG.format(epochs=ENDLESS, dstep=50)
MORE = 100  # steps after a restart


def rank_of(pid):
    """The rank that the launcher gave a process."""
    words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    names = (b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")
    return next(int(w.split(b"=")[1]) for w in words if w.startswith(names))


def silence(driver, scratch, ranks, victim, number):
    run = Run(driver, scratch, f"{number.name}_{victim}_of_{ranks}", DECK,
              [f"parallel/timeout={TIMEOUT}"], ranks)
    process = run.start()
    pids = {rank_of(pid): pid for pid in rank_processes(process, ranks)}
    check(sorted(pids) == list(range(ranks)), f"ranks {pids}: {run.said()}")
    wait_for(lambda: run.checkpoints() or process.poll() is not None, "checkpoint")
    check(process.poll() is None, f"ended on its own: {run.said()}")
    os.kill(pids[victim], number)
    start = time.monotonic()
    status = run.end(process, WITHIN)
    wait_for(lambda: not any(map(alive, pids.values())), "end of all ranks", WITHIN)
    took = time.monotonic() - start
    check(status == 6, f"{run.home.name}: status {status}: {run.said()}")
    said = re.findall(r"kan_driver: error\[(\d+)\] rank (\d+)/\d+: (.*)",
                      run.errors.read_text())
    first = 0 if victim != 0 else 1
    check([(code, rank) for code, rank, _ in said] == [("6", str(first))],
          f"{run.home.name}: one line of rank {first} is expected: {run.said()}")
    check(re.match(rf"step \d+: rank {victim} of {ranks} did not arrive within {TIMEOUT} s",
                   said[0][2]), f"{run.home.name}: {said[0][2]}")
    check_restart(run, MORE)
    print(f"{run.home.name}: gone after {took:.1f} s")


def stopped(driver, scratch):
    for ranks, victim in ((2, 1), (2, 0), (4, 2)):
        silence(driver, scratch, ranks, victim, signal.SIGSTOP)


class Patient:
    """Starts each rank under a shell that stays when the rank is gone, so that the launcher
    does not see it die."""

    def __init__(self, driver):
        self.inner = driver
        self.driver, self.shim, self.started = driver.driver, driver.shim, driver.started
        self.stays = True

    def command(self, directory, deck, arguments, ranks):
        words = self.inner.command(directory, deck, arguments, ranks)
        if ranks == 1 or not self.stays:
            return words
        at = words.index(self.inner.driver)
        return [*words[:at], "sh", "-c", '"$@" || { [ $? -lt 128 ] && exit 6; sleep 60; }', "sh",
                *words[at:]]


def dead(driver, scratch):
    for ranks, victim in ((2, 1), (4, 3)):
        silence(Patient(driver), scratch, ranks, victim, signal.SIGKILL)


main({"stopped": stopped, "dead": dead})
