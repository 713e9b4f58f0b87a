#!/usr/bin/env python3
"""Collectives beside Open MPI and MPICH: the same loop, in turns, on this machine. A table for people.

    tests/bench/collectives.py --diji build/release/bin/diji [--ranks 2,8] [--only WORD] [--rounds 5] [--seconds 0.25]

Needs mpicc.openmpi and mpicc.mpich of Debian (libopenmpi-dev openmpi-bin libmpich-dev mpich); what is absent is named.
A ratio is the best peer's time over diji's, round by round: above 1 diji is faster. Medians, with the quartiles.
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
CASES = [("all_reduce", size) for size in (8, 4096, 1 << 20, 64 << 20)]
CASES += [(operation, 64 << 20) for operation in ("reduce_scatter", "all_gather", "broadcast")]
RUNNERS = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"], "mpich": ["mpirun.mpich"]}


def last_line(command):
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600, check=True)
    return run.stdout.strip().splitlines()[-1]


def peers(folder):
    programs = {}
    for name in RUNNERS:
        compiler = shutil.which(f"mpicc.{name}")
        if compiler is None:
            print(f"absent: {name} (mpicc.{name})")
            continue
        programs[name] = os.path.join(folder, f"mpi_{name}")
        subprocess.run([compiler, "-O2", HERE / "mpi_collectives.c", "-o", programs[name]], check=True)
    return programs


def measure(options, programs, operation, size, ranks):
    """{"diji": [us, ...], "openmpi": ...}, one value a round."""
    times = {name: [] for name in ["diji", *programs]}
    for _ in range(options.rounds):
        words = ["bench", "collective", operation, "--bytes", str(size), "--seconds", str(options.seconds), "--json"]
        words += ["--in-place"] if operation == "broadcast" else []  # as MPI_Bcast has it
        document = json.loads(last_line([options.diji, "launch", "-n", str(ranks), options.diji, *words]))
        times["diji"].append(document["rows"][0]["time_us"])
        for name, program in programs.items():
            command = [*RUNNERS[name], "-n", str(ranks), program, operation, str(size), str(options.seconds)]
            times[name].append(float(last_line(command)))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--ranks", default="2,8")
    parser.add_argument("--only", default="", help="operations whose name has this in it")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.25)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        programs = peers(folder)
        print(f"\n| operation | ranks | bytes | diji us | {' us | '.join(programs)} us | best peer / diji |")
        print("|---|--:|--:|--:|" + "--:|" * len(programs) + "---|")
        for ranks in map(int, options.ranks.split(",")):
            for operation, size in (case for case in CASES if options.only in case[0]):
                times = measure(options, programs, operation, size, ranks)
                medians = [statistics.median(values) for values in times.values()]
                best = [min(values) for values in zip(*(times[name] for name in programs))]
                ratios = sorted(peer / own for peer, own in zip(best, times["diji"]))
                low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
                cells = " | ".join(f"{value:.4g}" for value in medians)
                text = f"{statistics.median(ratios):.2f} ({low:.2f}-{high:.2f})" if programs else "-"
                print(f"| {operation} | {ranks} | {size} | {cells} | {text} |", flush=True)


if __name__ == "__main__":
    main()
