#!/usr/bin/env python3
"""Collectives beside Open MPI, MPICH and gloo: the same loop, in turns, on this machine. A table for people.

    tests/bench/collectives.py --diji build/release/bin/diji [--ranks 2,8] [--only WORD] [--rounds 5] [--seconds 0.25]
                               [--gloo PYTHON | --process-vm]

Needs mpicc.openmpi and mpicc.mpich of Debian (libopenmpi-dev openmpi-bin libmpich-dev mpich), and for gloo a Python
that has torch; what is absent is named. In each round all of them take their turn, in private (malloc) memory that was
written before, and diji once more in registered memory. A ratio is the best peer's time over diji's, round by round:
above 1 diji is faster. Medians, with the quartiles. "floor" is a loop in which as many threads read and write what the
operation makes the ranks read and write at least, past the caches. With --process-vm the only peer is diji itself
that may not read peers' private memory (DIJI_PROCESS_VM=off).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LARGE = 64 << 20
CASES = [("all_reduce", size) for size in (8, 4096, 1 << 20, LARGE)]
CASES += [(operation, LARGE) for operation in ("reduce_scatter", "all_gather", "broadcast")]
RUNNERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpirun.mpich"]}
COLUMNS = ["diji", "registered", "openmpi", "mpich", "gloo", "floor"]
READ_SIZES = [1 << power for power in (16, 17, 18, 19, 20, 22, 23)]
READ_OPERATIONS = ("broadcast", "gather", "scatter", "all_gather", "all_to_all")
READ_CASES = [(operation, size) for operation in READ_OPERATIONS for size in READ_SIZES]
READ_COLUMNS = ["diji", "registered", "slots"]


def last_line(command, **environment):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "env": os.environ | environment}
    run = subprocess.run(command, text=True, timeout=600, check=True, **pipes)
    return run.stdout.strip().splitlines()[-1]


class Diji:
    def __init__(self, options, *words, **environment):
        self.binary, self.seconds, self.words = options.diji, str(options.seconds), words
        self.environment = environment

    def time_us(self, operation, size, ranks):
        words = ["bench", "collective", operation, "--bytes", str(size), "--seconds", self.seconds, *self.words]
        words += ["--in-place"] if operation == "broadcast" else []  # as MPI_Bcast has it
        launch = [self.binary, "launch", "-n", str(ranks), self.binary]
        return json.loads(last_line([*launch, *words, "--json"], **self.environment))["rows"][0]["time_us"]


class Mpi:
    def __init__(self, options, name, folder):
        self.program, self.runner = os.path.join(folder, f"mpi_{name}"), RUNNERS[name]
        self.seconds = str(options.seconds)
        compiler = [f"mpicc.{name}", "-O2", HERE / "mpi_collectives.c", "-o", self.program]
        subprocess.run(compiler, check=True)

    def time_us(self, operation, size, ranks):
        return float(last_line([*self.runner, "-n", str(ranks), self.program, operation, str(size), self.seconds]))


class Gloo:
    """Its ranks stay, asleep while others have their turn: to start them takes longer than all they are asked."""

    def __init__(self, options):
        self.python, self.seconds, self.processes = options.gloo, options.seconds, {}

    def time_us(self, operation, size, ranks):
        if ranks not in self.processes:
            command = [self.python, "-W", "ignore", HERE / "gloo_collectives.py", str(ranks)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
            self.processes[ranks] = subprocess.Popen(command, text=True, **pipes)
        process = self.processes[ranks]
        process.stdin.write(f"{operation} {size} {self.seconds}\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    def close(self):
        for process in self.processes.values():
            process.communicate()


class Floor:
    def __init__(self, options, folder):
        self.program, self.seconds = os.path.join(folder, "memory_floor"), str(options.seconds)
        compiler = ["cc", "-O2", "-march=native", "-pthread", HERE / "memory_floor.c", "-o", self.program]
        subprocess.run(compiler, check=True)

    def time_us(self, operation, size, ranks):
        if size < LARGE:
            return None  # nothing of it leaves the caches
        read = size // ranks if operation == "all_gather" else size  # from memory once, whoever reads it again
        written = size // ranks if operation == "reduce_scatter" else size
        busy = ranks
        if operation == "broadcast":  # the root has it
            read, busy = size // (ranks - 1), ranks - 1
        return float(last_line([self.program, str(busy), str(read), str(written), self.seconds]))


def runners(options, folder):
    found = {"diji": Diji(options), "registered": Diji(options, "--registered")}
    if options.process_vm:
        return found | {"slots": Diji(options, DIJI_PROCESS_VM="off")}
    for name in RUNNERS:
        if shutil.which(f"mpicc.{name}") is None:
            print(f"absent: {name} (mpicc.{name})")
        else:
            found[name] = Mpi(options, name, folder)
    if options.gloo is None:
        print("absent: gloo (--gloo PYTHON)")
    else:
        found["gloo"] = Gloo(options)
    found["floor"] = Floor(options, folder)
    return found


def ratio(best, own):
    if not best:
        return "-"
    ratios = sorted(peer / value for peer, value in zip(best, own))
    low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
    return f"{statistics.median(ratios):.2f} ({low:.2f}-{high:.2f})"


def row(found, columns, operation, size, ranks, rounds):
    names = [name for name in found if name != "registered" or size > 4096]  # short messages are copied anyhow
    times = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            value = found[name].time_us(operation, size, ranks)
            if value is not None:
                times[name].append(value)
    peers = [times[name] for name in names if name not in ("diji", "registered", "floor")]
    best = [min(values) for values in zip(*peers)]
    cells = [f"{statistics.median(times[name]):.4g}" if times.get(name) else "-" for name in columns]
    own = [ratio(best, times[name]) if name in times else "-" for name in ("diji", "registered")]
    return f"| {operation} | {ranks} | {size} | {' | '.join(cells)} | {' | '.join(own)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--ranks", default="2,8")
    parser.add_argument("--only", default="", help="operations whose name has this in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--gloo", help="a Python that has torch")
    parser.add_argument("--process-vm", action="store_true")
    options = parser.parse_args()
    cases, columns = (READ_CASES, READ_COLUMNS) if options.process_vm else (CASES, COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        found = runners(options, folder)
        print(f"\n| operation | ranks | bytes | {' | '.join(f'{name} us' for name in columns)} "
              "| best peer / diji | best peer / registered |")  # fmt: skip
        print("|---|--:|--:|" + "--:|" * len(columns) + "---|---|")
        for ranks in map(int, options.ranks.split(",")):
            for operation, size in (case for case in cases if options.only in case[0]):
                print(row(found, columns, operation, size, ranks, options.rounds), flush=True)
        if "gloo" in found:
            found["gloo"].close()


if __name__ == "__main__":
    main()
