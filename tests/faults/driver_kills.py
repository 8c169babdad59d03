"""Kills kan_driver anywhere and checks that the next launch ends as if nothing had been:
parameters, optimizer, state, history and all other results, times and rates apart, are
those of an undisturbed run, bit for bit.

  driver_kills.py CASE DRIVER SHIM [LAUNCHER FLAG [MORE...]]

  calls    SIGKILL before the n-th write, fsync, rename, link, unlink of a whole run, for
           every n
  flush    the same for a run with more history rows than one segment takes
  writes   SIGKILL in the middle of every write
  twice    SIGKILL also in the restart, at a sample of n
  stopped  runs that end early, killed at every call after their last checkpoint
  random   20 times SIGKILL at random times
  ranks    SIGKILL for one of two ranks at random times: the job ends, a restart goes on
"""

import collections
import os
import random
import re
import signal
import time

from driver_runs import (ENDLESS, LONG, SMALL, Run, alive, check, check_restart,
                         check_same, everything, in_pairs, last_state, main,
                         rank_processes, wait_for)

FEWEST_CALLS = 150  # of SMALL; a few more come with a slow machine
KILLS = 20          # at random times
LONG_DECK = LONG.format(epochs=2500, dstep=2500)
# Its first segment is full, and flushed, before the first checkpoint is due.
MANY_ROWS = """<job>
name = run
<run>
steps = 18500
threads = 1
ndiag = 10000
<data>
source = function
rows = 4096
expressions = x*y
<network>
widths = 2, 1
grid = 3
<optimizer>
batch = 8
<output1>
type = history
dstep = 1
<output2>
type = restart
dstep = 17500
"""
ENDLESS_DECK = LONG.format(epochs=ENDLESS, dstep=100)


def undisturbed(driver, scratch, deck=SMALL, overrides=()):
    """The results that all others must have, and the calls "name path" made for them."""
    run = Run(driver, scratch, "undisturbed", deck, overrides)
    status = run.launch("-r", "auto", kill_at=0)
    check(status == 0, f"undisturbed: status {status}: {run.said()}")
    calls = run.trace.read_text().splitlines()
    check(len(calls) == int(run.count.read_text()), "the shim does not count")
    results = everything(run)
    run.remove()
    return results, calls


def kill_and_restart(driver, scratch, results, n, deck=SMALL, overrides=(), partial=False,
                     again=None):
    """Killed at call n (again: and its restart at that call), then left to end. Returns
    whether there was a call n."""
    run = Run(driver, scratch, f"call_{n}_{again}", deck, overrides)
    status = run.launch("-r", "auto", kill_at=n, partial=partial)
    check(status in (0, -signal.SIGKILL), f"call {n}: status {status}: {run.said()}")
    killed = status != 0
    if again is not None:
        status = run.launch(*run.restart(), kill_at=again)
        check(status in (0, -signal.SIGKILL),
              f"calls {n}, {again}: status {status}: {run.said()}")
    run.finish()
    check_same(results, everything(run), f"killed at call {n}, then {again}")
    run.remove()
    return killed


def at_every_call_of(driver, scratch, deck, fewest):
    """Kills at call 1, 2, ... of the deck's run until one has no such call."""
    results, calls = undisturbed(driver, scratch, deck)
    check(len(calls) >= fewest, f"only {len(calls)} calls are seen")
    n, left = 0, False
    while not left:
        killed = in_pairs(lambda n: kill_and_restart(driver, scratch, results, n, deck),
                          range(n + 1, n + 17))
        check(sum(killed) == (killed + [False]).index(False), f"{killed} from call {n + 1}")
        n, left = n + sum(killed), not all(killed)
    check(n >= fewest, f"killed at {n} calls only")
    names = collections.Counter(call.split()[0] for call in calls)
    print(f"killed at each of {n} calls of a run ({dict(names)} in the undisturbed one)")
    return calls


def at_every_call(driver, scratch):
    at_every_call_of(driver, scratch, SMALL, FEWEST_CALLS)


def at_every_call_of_a_flush(driver, scratch):
    calls = at_every_call_of(driver, scratch, MANY_ROWS, 50)
    segments = [call for call in calls if re.search(r"^rename .*/run\.hst\.\d{8}\.h5", call)]
    saved = [call for call in calls if re.search(r"^rename .*/run\.\d{8}\.rst\.h5", call)]
    check(len(set(segments)) == 2 and calls.index(segments[0]) < calls.index(saved[0]),
          f"no history flush of its own: {segments}, {saved}")


def in_every_write(driver, scratch):
    results, calls = undisturbed(driver, scratch)
    writes = [n for n, call in enumerate(calls, 1) if call.startswith("write ")]
    check(len(writes) >= 40, f"only {len(writes)} writes are seen")
    killed = in_pairs(
        lambda n: kill_and_restart(driver, scratch, results, n, partial=True), writes)
    check(sum(killed) >= len(writes) - 1, f"{sum(killed)} kills for {len(writes)} writes")
    print(f"killed in the middle of {sum(killed)} writes")


def also_in_the_restart(driver, scratch):
    results, calls = undisturbed(driver, scratch)
    # Restarts from nothing, from a checkpoint, in the end of a run and after it; each is
    # killed in its first calls, where it puts the directory in order, or anywhere.
    places = [(n, 1 + (n * 37) % (30 if n % 2 else len(calls)))
              for n in range(3, len(calls), 6)]
    places += [(len(calls) - late, early) for late in (1, 6, 12) for early in range(1, 31, 2)]
    in_pairs(lambda place: kill_and_restart(driver, scratch, results, place[0],
                                            again=place[1]), places)
    print(f"killed twice at {len(places)} pairs of calls")


def runs_that_stop_early(driver, scratch):
    for name, overrides, reason in (
            ("target", ["stop/target_loss=0.05"], "target_loss"),
            ("patience", ["stop/patience=2", "optimizer/learning_rate=1e-30"], "patience")):
        home = f"{scratch}/{name}"
        results, calls = undisturbed(driver, home, SMALL, overrides)
        report = results["run.report.json"]
        check(report["exit_reason"] == reason and report["epochs"] < 6, f"{name}: {report}")
        saved = max(n for n, call in enumerate(calls, 1)
                    if re.search(r"^rename .*/run\.\d{8}\.rst\.h5", call))
        in_pairs(lambda n: kill_and_restart(driver, home, results, n, SMALL, overrides),
                 range(saved, len(calls) + 1))
        print(f"{name}: killed at each of the {len(calls) + 1 - saved} last calls")


def at_random_times(driver, scratch):
    """Two directories at a time are started, killed and restarted until 20 kills are done;
    the run that stands then is left to end."""
    run = Run(driver, scratch, "undisturbed", LONG_DECK)
    start = time.monotonic()
    run.finish()
    whole = time.monotonic() - start
    results = last_state(everything(run))
    run.remove()

    def kills(seed):
        chance = random.Random(seed)
        done = finished = 0
        run = None
        while done < KILLS // 2:
            if run is None:
                run = Run(driver, scratch, f"random_{seed}_{finished}", LONG_DECK)
            process = run.start(*run.restart())
            end = time.monotonic() + chance.uniform(0.1, 0.6) * whole
            while process.poll() is None and time.monotonic() < end:
                time.sleep(0.002)
            if process.poll() is None:
                process.kill()
                done += 1
                check(run.end(process) == -signal.SIGKILL, "killed otherwise")
            else:
                check(process.returncode == 0, f"status {process.returncode}: {run.said()}")
                check_same(results, last_state(everything(run)), run.home.name)
                finished += 1
                run = None
        if run is not None:
            run.finish()
            check_same(results, last_state(everything(run)), run.home.name)
            finished += 1
        return done, finished

    pairs = in_pairs(kills, (1, 2))
    print(f"{sum(kills for kills, _ in pairs)} kills at random times in "
          f"{sum(runs for _, runs in pairs)} runs of {whole:.1f} s")


def one_of_two_ranks(driver, scratch):
    chance = random.Random(3)
    run = Run(driver, scratch, "ranks", ENDLESS_DECK, ranks=2)
    longest = 0
    for rank in (1, 0, 1):
        before = run.checkpoints()
        process = run.start(*run.restart())
        ranks = rank_processes(process, 2)
        check(len(ranks) == 2, f"the ranks do not run: {run.said()}")
        wait_for(lambda: run.checkpoints() != before or process.poll() is not None,
                 "checkpoint")
        time.sleep(chance.uniform(0, 0.1))
        check(process.poll() is None, f"ended on its own: {run.said()}")
        os.kill(ranks[rank], signal.SIGKILL)
        start = time.monotonic()
        status = run.end(process, 30)
        wait_for(lambda: not any(map(alive, ranks)), "end of all ranks", 30)
        longest = max(longest, time.monotonic() - start)
        check(status != 0, "the launcher reports success")
    steps = check_restart(run, 250)
    print(f"one of two ranks killed 3 times in {steps} steps; the job was gone within "
          f"{longest:.1f} s")


main({"calls": at_every_call, "flush": at_every_call_of_a_flush,
      "writes": in_every_write, "twice": also_in_the_restart,
      "stopped": runs_that_stop_early, "random": at_random_times,
      "ranks": one_of_two_ranks})
