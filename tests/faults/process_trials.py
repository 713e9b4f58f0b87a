#!/usr/bin/env python3
"""Ranks as processes, and one fault in each job, drawn from a seed: what everybody says, how soon, and what is left.

    tests/faults/process_trials.py --diji build/release/bin/diji [--trials N] [--seed S] [--only SEED]

A trial that took too long is void where its own clock ticked late (the machine was too busy to tell); more than one in
twenty of those fail the whole. Exit code 1: something did not hold; its seed runs that trial alone.
"""

import argparse
import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

BOUND_S = 5  # five times what is promised of a dead rank
TIMEOUT_S = 2  # of the start and of calls, where waiting is what ends a job
OPERATIONS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter", "all_to_all",
              "scan", "exscan", "barrier")  # fmt: skip
# One host; two, whose ranks talk by memory and sockets; each rank a host of its own.
LAYOUTS = {"shm": "all", "shm+tcp": "$((DIJI_RANK / 2))", "tcp": "$DIJI_RANK"}
WAITS_FOR = {  # an operation with a root waits for the victim only in one of the directions
    "broadcast": "root", "scatter": "root", "reduce": "others", "gather": "others",
}  # fmt: skip


@dataclasses.dataclass
class Trial:
    seed: int
    fault: str
    operation: str
    ranks: int
    layout: str
    size: str
    victim: int
    moment_s: float

    def __str__(self):
        job = f"{self.operation} of {self.size} on {self.ranks} ranks ({self.layout})"
        return f"seed {self.seed}: {self.fault} of rank {self.victim} after {self.moment_s:.3f} s, {job}"


def draw(seed):
    random_numbers = random.Random(seed)
    ranks = random_numbers.choice((2, 3, 4, 5))
    layout = random_numbers.choice([name for name in LAYOUTS if name != "shm+tcp" or ranks > 2])
    return Trial(
        seed, random_numbers.choice(list(FAULTS)), random_numbers.choice(OPERATIONS), ranks, layout,
        random_numbers.choice(("8", "64K", "4M")), random_numbers.randrange(ranks), random_numbers.random() * 0.3,
    )  # fmt: skip


class Ticks(threading.Thread):
    """How late a clock of 10 ms came at worst."""

    def __init__(self):
        super().__init__(daemon=True)
        self.worst, self.over = 0.0, threading.Event()

    def run(self):
        while not self.over.is_set():
            begin = time.monotonic()
            time.sleep(0.01)
            self.worst = max(self.worst, time.monotonic() - begin - 0.01)


class Job:
    def __init__(self, diji, trial, folder, script):
        self.trial, self.folder = trial, folder
        (folder / "tmp").mkdir()
        self.marker = f"DIJI_TRIAL={folder}".encode()
        environment = dict(os.environ, TMPDIR=str(folder / "tmp"), DIJI_TRIAL=str(folder), DIJI=str(diji))
        environment["DIJI_WARN_AFTER"] = "1"
        host = f"export DIJI_HOST_ID={LAYOUTS[trial.layout]}; pid=pid.$DIJI_RANK\n"
        host += "echo $$ > $pid.new; mv $pid.new $pid\n"
        timeout = 30 if trial.fault == "stop and go on" else TIMEOUT_S
        command = [diji, "launch", "-n", str(trial.ranks), "--timeout", str(timeout), "--", "sh", "-c", host + script]
        with (folder / "out").open("wb") as out, (folder / "err").open("wb") as err:
            files = {"cwd": folder, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            self.process = subprocess.Popen(command, env=environment, **files)

    def err(self):
        return (self.folder / "err").read_text(errors="replace")

    def pid(self, rank):
        return int((self.folder / f"pid.{rank}").read_text())

    def started(self):
        """Once all ranks run the command: their shells have become it."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                names = [pathlib.Path(f"/proc/{self.pid(rank)}/comm").read_text() for rank in range(self.trial.ranks)]
                if all(name == "diji\n" for name in names):
                    return True
            time.sleep(0.005)
        return False

    def left(self):
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if self.marker in (folder / "environ").read_bytes():
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    found += [int(folder.name)] if state != "Z" else []
        return found

    def clean(self):
        for pid in self.left():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def bench(trial, iterations="--iters 100000000", operation=None):
    root = f" --root {trial.victim}" if WAITS_FOR.get(trial.operation) == "root" else ""
    size = "" if (operation or trial.operation) == "barrier" else f" --bytes {trial.size}"
    return f'exec "$DIJI" bench collective {operation or trial.operation}{size}{root} {iterations}\n'


def survivors_name(trial, err):
    """In its call, or still in start-up, where an error may not say whose it is: one line each then."""
    named = rf"(?m)^rank (\d+): \w+ #\d+: .*(?:\brank|,) {trial.victim} (?:on \S+ \(pid \d+\)|at )"
    told = set(map(int, re.findall(named, err)))
    starting = re.findall(rf"(?m)^diji: start-up\b.*(?:\brank|,) {trial.victim} (?:at|on|never) ", err)
    missing = set(range(trial.ranks)) - {trial.victim} - told
    if len(starting) >= len(missing):
        return []
    return [f"of ranks {sorted(missing)} only {len(starting)} name rank {trial.victim}"]


def kill(trial, job):
    os.kill(job.pid(trial.victim), signal.SIGKILL)
    return BOUND_S, 5, survivors_name


def stop_for_good(trial, job):
    os.kill(job.pid(trial.victim), signal.SIGSTOP)
    return 2 * TIMEOUT_S + BOUND_S + 10, 5, survivors_name  # launch gives who is left 10 s


def stop_and_go_on(trial, job):
    os.kill(job.pid(trial.victim), signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(job.pid(trial.victim), signal.SIGCONT)
    return BOUND_S + 30, 0, lambda trial, err: ["an error"] if re.search(r"(?m)^rank |^diji: [^w]", err) else []


def leave(trial, job):
    return BOUND_S, 5, survivors_name


def differ(trial, job):
    def both(trial, err):
        silent = [rank for rank in range(trial.ranks) if not re.search(rf"(?m)^rank {rank}: \w+ #\d+: .* calls ", err)]
        return [f"rank {rank} does not name the difference" for rank in silent]

    return BOUND_S, 5, both


def kill_the_launcher(trial, job):
    job.process.kill()
    return BOUND_S, -signal.SIGKILL, lambda trial, err: []


# Each: the script of a rank, and what happens once all run.
FAULTS = {
    "kill": (bench, kill),
    # A child of the dead rank keeps all its descriptors.
    "kill beside a child": (lambda trial: "sleep 60 &\n" + bench(trial), kill),
    "stop": (bench, stop_for_good),
    "stop and go on": (lambda trial: bench(trial, "--seconds 2"), stop_and_go_on),
    "early end": (lambda trial: of_victim(trial, bench(trial, "--iters 20")), leave),
    "mismatch": (lambda trial: of_victim(trial, other_call(trial)), differ),
    "launcher killed": (bench, kill_the_launcher),
}  # fmt: skip


def of_victim(trial, command):
    """The victim's own command; all others run the trial's."""
    return f"[ $DIJI_RANK = {trial.victim} ] && {command}{bench(trial)}"


def other_call(trial):
    """A call that the others cannot take for theirs."""
    return bench(trial, operation="all_reduce" if trial.operation == "barrier" else "barrier")


def run(diji, trial):
    """What did not hold (None: nothing happened), and how late the clock was at worst."""
    with tempfile.TemporaryDirectory() as folder:
        ticks = Ticks()
        ticks.start()
        script, happen = FAULTS[trial.fault]
        job = Job(diji, trial, pathlib.Path(folder), script(trial))
        try:
            return judge(trial, job, happen), ticks.worst
        except ProcessLookupError:  # over before it could happen
            return None, ticks.worst
        finally:
            ticks.over.set()
            job.clean()


def judge(trial, job, happen):
    if trial.fault not in ("early end", "mismatch"):
        if not job.started():
            return [f"the ranks did not start: {job.err()}"]
        time.sleep(trial.moment_s)
    begin = time.monotonic()
    bound, code, check = happen(trial, job)
    try:
        found = job.process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        return [f"a hang: {job.err()}"]
    took = time.monotonic() - begin
    while job.left() and time.monotonic() - begin < bound:  # without a launcher the ranks end by themselves
        time.sleep(0.02)
    err = job.err()
    problems = check(trial, err)
    if found != code:
        problems.append(f"exit code {found} for {code}")
    if took > bound:
        problems.append(f"{took:.1f} s for {bound} s")
    problems += [f"left: {pid}" for pid in job.left()]
    problems += [f"left: {path.name}" for path in (job.folder / "tmp").iterdir()]
    return problems + ([err] if problems else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diji", type=pathlib.Path, required=True)
    parser.add_argument("--trials", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1, help="of the first trial; each has the next")
    parser.add_argument("--only", type=int, help="the trial of that seed alone")
    options = parser.parse_args()
    diji = options.diji.resolve()
    seeds = [options.only] if options.only is not None else range(options.seed, options.seed + options.trials)
    counts, void, bad = collections.Counter(), 0, 0
    for seed in seeds:
        trial = draw(seed)
        problems, late = run(diji, trial)
        only_late = problems and all(re.fullmatch(r"[\d.]+ s for .*", one) for one in problems[:-1])
        if problems is None or (only_late and late > 0.2):
            void += 1
            continue
        counts[trial.fault] += 1
        if problems:
            bad += 1
            print(trial, *problems, sep="\n  ", flush=True)
    each = ", ".join(f"{count} {fault}" for fault, count in sorted(counts.items()))
    print(f"process trials from seed {seeds[0]}: {sum(counts.values())} ({each}), {void} void, {bad} bad")
    return 1 if bad or void * 20 > len(seeds) else 0


if __name__ == "__main__":
    sys.exit(main())
