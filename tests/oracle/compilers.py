#!/usr/bin/env python3
"""Kernels of the CPU's LLVM path against those of another compiler: the same bits for every operator.

    tests/oracle/compilers.py --diji build/release/bin/diji [--all | --op GLOB | --sample N | --seconds S]
                              [--seed N] [--cc gcc | --against DEVICE]

The other compiler is the CPU's for C, or that of another device, such as opencl:0. Same bits are not luck: kernels
are generated, so all devices of one vector width do the same steps in the same order, and steps are exactly rounded.

Each run is `diji verify`, so the other kernels are also within the proven bounds. Without --all, --op or --sample, one
operator of every kind of kernel in a dtype that the seed decides, and then in others for as long as the seconds allow.
"""

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
import time

# One operator for each root of a kernel; of maps several.
ROOTS = (
    "add cast tanh max reduce_sum reduce_max matmul conv scatter_elements arg_max cum_sum top_k non_zero concat gather "
    "grid_sample"
).split()
DTYPES = ("f32", "f16", "bf16", "f64", "i8", "u8", "i32", "i64", "u64", "bool")


def sides(arguments):
    """Of the two that are compared: what they are called, and the settings that make them."""
    llvm = {"DIJI_CPU_COMPILER": "llvm", "DIJI_DEVICE": "cpu"}
    return llvm, llvm | ({"DIJI_DEVICE": arguments.against} if arguments.against else {"DIJI_CPU_COMPILER": "c"})


def verify(arguments, settings, selection):
    """The document of one `diji verify`, or its words where it is none."""
    command = [arguments.diji, "verify", "--json", *selection]
    environment = dict(os.environ, **settings)
    if arguments.cc:
        environment["CC"] = arguments.cc
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": {"code": "crash", "message": f"exit {done.returncode}: {done.stderr[-2000:]}"}}


def compare(arguments, selection):
    """(rows compared, sentences about what is wrong) of the operators and dtypes that verify's options select."""
    both = sides(arguments)
    llvm, other = (verify(arguments, settings, selection) for settings in both)
    repeat = shlex.join(["diji", "verify", *selection])
    for document in (llvm, other):
        if "error" in document:
            refused = document["error"]["code"] == "usage"  # an operator that does not take this dtype
            return 0, [] if refused else [f"{repeat}: {document['error']['message']}"]
    wrong = []
    for a, b in zip(llvm["rows"], other["rows"], strict=True):
        name = f"{a['op']} {a['dtype']}"
        if a["failed"] or b["failed"]:
            settings = " ".join(f"{key}={value}" for key, value in both[0 if a["failed"] else 1].items())
            wrong.append(f"{name}: {a['problem'] or b['problem']} ({settings} {repeat})")
        elif a["unsupported"] != b["unsupported"]:
            wrong.append(f"{name}: {a['unsupported']} refused in LLVM IR, {b['unsupported']} there: {b['problem']}")
        elif a["bits"] != b["bits"]:
            wrong.append(f"{name}: the bits differ ({repeat} --json)")
    return len(llvm["rows"]), wrong


def selections(arguments):
    """For each pair of runs the options of `diji verify` that say which operators and dtypes."""
    if arguments.sample:
        return [["--sample", str(arguments.sample), "--seed", str(arguments.seed)]]
    if arguments.op or arguments.all:
        return [["--op", arguments.op or "*", "--dtype", dtype] for dtype in (*DTYPES, "i16", "u16", "u32")]
    order = random.Random(arguments.seed)
    columns = [[["--op", op, "--dtype", dtype] for dtype in order.sample(DTYPES, len(DTYPES))] for op in ROOTS]
    return [selection for round_of_roots in zip(*columns) for selection in round_of_roots]  # each root, then again


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diji", required=True)
    parser.add_argument("--all", action="store_true", help="every operator and dtype")
    parser.add_argument("--op", help="only the operators whose name matches, in every dtype")
    parser.add_argument("--sample", type=int, help="so many operators and dtypes, drawn by --seed, in one run a side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40, help="no further pair begins after them")
    parser.add_argument("--against", metavar="DEVICE", help="this device instead of the CPU's C compiler")
    parser.add_argument("--cc", help="the C compiler (default: $CC, else diji's choice)")
    arguments = parser.parse_args()
    begin, compared, wrong = time.monotonic(), 0, []
    for selection in selections(arguments):
        if not (arguments.all or arguments.op) and time.monotonic() - begin > arguments.seconds:
            break
        rows, sentences = compare(arguments, selection)
        compared += rows
        wrong += sentences
        for sentence in sentences:
            print(f"WRONG {sentence}")
    print(f"{compared} operators and dtypes compared bit by bit, {len(wrong)} wrong (seed {arguments.seed})")
    sys.exit(1 if wrong or compared == 0 else 0)


if __name__ == "__main__":
    main()
