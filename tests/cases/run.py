#!/usr/bin/env python3
"""Real users' failures as small models: every case must give the right value or be refused by name.

    tests/cases/run.py --diji build/release/bin/diji [--only NAME]

known.txt lists the cases that do not pass yet, with the reason. A case that fails and is not in it is an error, and so
is one in it that passes: the list may only shrink.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

ROOT = pathlib.Path(__file__).resolve().parent
REFUSED = 3  # exit code of bad input
DEADLINE_S = 120


def arrays(folder, prefix):
    return {path.stem.removeprefix(prefix): path for path in sorted(folder.glob(f"{prefix}*.npy"))}


def difference(got, want, case):
    """None, or where the first wrong element is."""
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind in "fc":
        with numpy.errstate(invalid="ignore", over="ignore"):
            same = numpy.isclose(got, want, rtol=case.get("rtol", 1e-5), atol=case.get("atol", 1e-6), equal_nan=True)
        if case.get("signed_zero"):
            same &= ~((want == 0) & (numpy.signbit(got) != numpy.signbit(want)))
    else:
        same = got == want
    if numpy.all(same):
        return None
    at = tuple(int(i) for i in numpy.argwhere(~numpy.atleast_1d(same))[0]) if got.ndim else ()
    return f"at {list(at)}: {got[at]} instead of {want[at]}"


def judge(diji, folder, case):
    """None where the case passes, else why it does not."""
    command = [diji, "run", folder / case.get("model", "model.onnx")]
    for name, path in arrays(folder, "in_").items():
        command += ["--input", f"{name}={path}"]
    with tempfile.TemporaryDirectory() as out:
        try:
            done = subprocess.run([*command, "--output", out], capture_output=True, text=True, timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            return f"no answer after {DEADLINE_S} s"
        said = (done.stderr.strip().splitlines() or ["nothing on stderr"])[-1]
        if done.returncode < 0:
            return f"ended by signal {-done.returncode}"
        if case["expect"] == "error":
            missing = [word for word in case.get("error_mentions", []) if word.lower() not in done.stderr.lower()]
            if done.returncode != REFUSED:
                return f"exit code {done.returncode} instead of {REFUSED}"
            return f"the message lacks {missing}: {said}" if missing else None
        if done.returncode != 0:
            return f"exit code {done.returncode}: {said}"
        for name, path in arrays(folder, "out_").items():
            written = pathlib.Path(out, f"{name}.npy")
            if not written.exists():
                return f"no output '{name}'"
            if wrong := difference(numpy.load(written), numpy.load(path), case):
                return f"{name}: {wrong}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True)
    parser.add_argument("--only", default="", metavar="NAME")
    options = parser.parse_args()
    known = dict(line.split(": ", 1) for line in (ROOT / "known.txt").read_text().splitlines() if line[:1] != "#")
    folders = [path.parent for path in sorted(ROOT.glob("*/*/case.json")) if options.only in path.parent.name]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cases = [json.loads((folder / "case.json").read_text()) for folder in folders]
        verdicts = list(pool.map(judge, [options.diji] * len(folders), folders, cases))
    failed = {folder.name: why for folder, why in zip(folders, verdicts) if why is not None}
    for name, why in failed.items():
        print(f"{'known' if name in known else 'FAIL '} {name}: {why}")
    better = [name for name in known if name not in failed and any(folder.name == name for folder in folders)]
    for name in better:
        print(f"{name} passes now: take it out of known.txt")
    print(f"cases: {len(folders) - len(failed)} of {len(folders)} pass")
    return 1 if better or set(failed) - set(known) or not folders else 0


if __name__ == "__main__":
    sys.exit(main())
