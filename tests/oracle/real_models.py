#!/usr/bin/env python3
"""Whole ONNX models: diji against the float64 interpreter and ONNX Runtime, several sizes each, compiled once.

    tests/oracle/real_models.py --diji build/release/bin/diji --models DIR [--only NAME] [--no-interpreter] [--update]
                                [--keep DIR]

DIR holds the unpacked packages; those that are missing are downloaded (about 300 MB in all). For every model and size:
f32 models lie within 1e-4 of the largest value of the interpreter's answer, and as near to ONNX Runtime's; of 8-bit
models >= 99 % of the values lie within one quantisation step of ONNX Runtime's answer, and labels are the same
(tests/oracle/judge.py says what a step is). The first run of a model may compile kernels, those at other sizes none.
tests/oracle/real_models.txt says for each model "pass" or why not; a model that passed must pass.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import judge
import model_list
import numpy
import onnxruntime

LIST = pathlib.Path(__file__).with_name("real_models.txt")
HEADER = "# Real models from PyPI packages; tests/oracle/real_models.py --update writes this.\n"
ERROR_MAX = 1e-4  # of the largest value
# Below that, ONNX Runtime's own logistic function is off by 1e-7 and flushes small results to 0.
WITNESS_FLOOR = 1e-2
INT8_SHARE = 0.99


def run_diji(diji, path, feeds, folder, extra=()):
    command = [diji, "run", str(path), "--json", "--output", str(folder), *extra]
    for i, (name, value) in enumerate(feeds.items()):
        file = folder / f"in_{i}.npy"
        numpy.save(file, value)
        command += ["--input", f"{name}={file}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return None, lines[-1]
    result = json.loads(done.stdout)
    return result, [numpy.load(folder / output["file"]) for output in result["outputs"]]


def timed_run(options, path, feeds, extra=()):
    """What run_diji gives, and the seconds it took."""
    with tempfile.TemporaryDirectory(dir=options.keep) as folder:
        start = time.monotonic()
        result, outputs = run_diji(options.diji, path, feeds, pathlib.Path(folder), extra)
        return result, outputs, time.monotonic() - start


class Verdict:
    """What is wrong with a model (None: nothing), and what was seen on the way."""

    def __init__(self):
        self.problem = None
        self.errors = {"interpreter": 0.0, "ONNX Runtime": 0.0}
        self.witness = 0.0  # how far ONNX Runtime lies from the interpreter
        self.notes = []

    def floats(self, got, want, judge_name, floor=1e-30):
        error = judge.relative_error(got, want, floor)
        self.errors[judge_name] = max(self.errors[judge_name], error)
        return None if error <= ERROR_MAX else f"off by {error:.2e} of the largest value ({judge_name})"

    def int8(self, got, want, scale, labels):
        steps = judge.in_steps(got, want, scale, labels)
        self.notes.append(str(steps))
        if steps.within < INT8_SHARE:
            return f"only {steps.within:.3f} of the values within a quantisation step"
        return None if steps.same == steps.rows else f"only {steps.same} of {steps.rows} labels are the same"

    def output(self, model, got, want, truth, scale):
        """None, or what is wrong with one output."""
        if wrong := judge.unlike(got, want):
            return wrong
        if want.dtype.kind != "f" or want.size == 0:
            return None
        if not numpy.isfinite(got).all():
            return "NaN or infinity"
        if model.int8:
            return self.int8(got, want, scale, model.labels)
        if truth is not None:
            self.witness = max(self.witness, judge.relative_error(want, truth))
            if wrong := judge.unlike(got, truth) or self.floats(got, truth, "interpreter"):
                return wrong
        return self.floats(got, want, "ONNX Runtime", WITNESS_FLOOR)

    def text(self, model, seconds, interpreter_seconds):
        times = "diji " + " ".join(f"{s:.2f}" for s in seconds) + " s"
        if model.int8:
            return "; ".join([*self.notes, times])
        near = [f"{self.errors['ONNX Runtime']:.1e} from ONNX Runtime"]
        if interpreter_seconds:
            near.insert(0, f"{self.errors['interpreter']:.1e} from the interpreter")
            near.append(f"which is {self.witness:.1e} from the interpreter")
            times += ", interpreter " + " ".join(f"{s:.1f}" for s in interpreter_seconds) + " s"
        return f"{', '.join(near)}; {times}"


def check(model, options):
    """(None or the problem, a line for people)"""
    path = options.models / model.path
    if not path.exists():
        return "the file is missing", ""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3  # errors only
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    scales = judge.scales_of(path) if model.int8 else {}
    verdict, seconds, interpreter_seconds = Verdict(), [], []
    for number, size in enumerate(model.sizes):
        feeds = model_list.inputs_of(model, session.get_inputs(), size, number + 1)
        want = session.run(None, feeds)
        result, got, spent = timed_run(options, path, feeds)
        seconds.append(spent)
        if result is None:
            return got.replace(f"{options.models}/", ""), ""
        truths = [None] * len(want)
        if options.interpreter and not model.int8:
            by_definition, truths, spent = timed_run(options, path, feeds, ["--interpreter", "exact"])
            interpreter_seconds.append(spent)
            if by_definition is None:
                return f"size {size}: the interpreter: {truths}", ""
        for output, mine, theirs, truth in zip(result["outputs"], got, want, truths, strict=True):
            if wrong := verdict.output(model, mine, theirs, truth, scales.get(output["name"])):
                return f"size {size}: output '{output['name']}': {wrong}", ""
        if number > 0 and result["compiled_kernels"] > 0:
            return f"size {size}: {result['compiled_kernels']} kernels were compiled again", ""
        if result["coverage"]["host"] > 0:
            return f"{result['coverage']['host']} operators on the host", ""
    return None, verdict.text(model, seconds, interpreter_seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--diji", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="the models whose name has this in it")
    parser.add_argument("--no-interpreter", dest="interpreter", action="store_false", help="ONNX Runtime alone judges")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep")
    options = parser.parse_args()
    model_list.fetch(options.models)
    known = dict(line.split("\t") for line in LIST.read_text().splitlines()[1:]) if LIST.exists() else {}
    worse, results, passed = [], dict(known), []
    models = [model for model in model_list.present(options.models) if options.only in model.name]
    for model in models:
        problem, note = check(model, options)
        print(f"{'pass' if problem is None else 'FAIL'} {model.name}: {problem or note}", flush=True)
        results[model.name] = "pass" if problem is None else problem
        passed += [model.name] if problem is None else []
        if known.get(model.name) == "pass" and problem is not None:
            worse.append(model.name)
    if options.update and not worse:
        LIST.write_text(HEADER + "".join(f"{name}\t{result}\n" for name, result in sorted(results.items())))
    print(f"whole models: {len(passed)} of {len(models)} pass; worse than before: {len(worse)}")
    sys.exit(1 if worse or not models else 0)


if __name__ == "__main__":
    main()
