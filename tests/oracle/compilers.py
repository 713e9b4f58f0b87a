#!/usr/bin/env python3
"""The CPU's two compilers against each other: LLVM IR and C must compute the same bits for every operator.

    tests/oracle/compilers.py --diji build/release/bin/diji [--all | --seed N --seconds S] [--op GLOB] [--cc gcc]

Each run is `diji verify`, so the C kernels are also within the proven bounds. A sample has one operator of every kind
of kernel in a dtype that the seed decides, and then in others for as long as the seconds allow.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import time

# One operator for each root of a kernel; of maps several.
ROOTS = (
    "add cast tanh max reduce_sum reduce_max matmul conv scatter_elements arg_max cum_sum top_k non_zero concat gather "
    "grid_sample"
).split()
DTYPES = ("f32", "f16", "bf16", "f64", "i8", "u8", "i32", "i64", "u64", "bool")


def verify(arguments, compiler, op, dtype=None):
    """The document of one `diji verify`, or its words where it is none."""
    command = [arguments.diji, "verify", "--json", "--op", op] + (["--dtype", dtype] if dtype else [])
    environment = dict(os.environ, DIJI_CPU_COMPILER=compiler)
    if arguments.cc:
        environment["CC"] = arguments.cc
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"error": {"code": "crash", "message": f"exit {done.returncode}: {done.stderr[-2000:]}"}}


def compare(arguments, op, dtype=None):
    """(rows compared, sentences about what is wrong)."""
    llvm, c = (verify(arguments, compiler, op, dtype) for compiler in ("llvm", "c"))
    repeat = f"diji verify --op '{op}'" + (f" --dtype {dtype}" if dtype else "")
    for document in (llvm, c):
        if "error" in document:
            refused = document["error"]["code"] == "usage"  # an operator that does not take this dtype
            return 0, [] if refused else [f"{repeat}: {document['error']['message']}"]
    wrong = []
    for a, b in zip(llvm["rows"], c["rows"], strict=True):
        name = f"{a['op']} {a['dtype']}"
        if a["failed"] or b["failed"]:
            compiler = "llvm" if a["failed"] else "c"
            wrong.append(f"{name}: {a['problem'] or b['problem']} (DIJI_CPU_COMPILER={compiler} {repeat})")
        elif a["unsupported"] != b["unsupported"]:
            wrong.append(f"{name}: {a['unsupported']} refused in LLVM IR, {b['unsupported']} in C: {b['problem']}")
        elif a["bits"] != b["bits"]:
            wrong.append(f"{name}: the bits differ ({repeat} --json)")
    return len(llvm["rows"]), wrong


def tasks(arguments):
    if arguments.op or arguments.all:
        return [(arguments.op or "*", dtype) for dtype in (*DTYPES, "i16", "u16", "u32")]
    order = random.Random(arguments.seed)
    columns = [[(op, dtype) for dtype in order.sample(DTYPES, len(DTYPES))] for op in ROOTS]
    return [task for round_of_roots in zip(*columns) for task in round_of_roots]  # every root once, then again


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--diji", required=True)
    parser.add_argument("--all", action="store_true", help="every operator and dtype")
    parser.add_argument("--op", help="only the operators whose name matches, in every dtype")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=40, help="no further pair begins after them")
    parser.add_argument("--cc", help="the C compiler (default: $CC, else diji's choice)")
    arguments = parser.parse_args()
    begin, compared, wrong = time.monotonic(), 0, []
    for op, dtype in tasks(arguments):
        if not (arguments.all or arguments.op) and time.monotonic() - begin > arguments.seconds:
            break
        rows, sentences = compare(arguments, op, dtype)
        compared += rows
        wrong += sentences
        for sentence in sentences:
            print(f"WRONG {sentence}")
    print(f"{compared} operators and dtypes compared bit by bit, {len(wrong)} wrong (seed {arguments.seed})")
    sys.exit(1 if wrong or compared == 0 else 0)


if __name__ == "__main__":
    main()
