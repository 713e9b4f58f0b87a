#!/usr/bin/env python3
"""Whole ONNX models: diji against the float64 interpreter and ONNX Runtime, several sizes each, compiled once.

    tests/oracle/real_models.py --diji build/release/bin/diji --models DIR [--only NAME] [--no-interpreter] [--update]
                                [--keep DIR] [--against DEVICE]

DIR holds the unpacked packages; those that are missing are downloaded (about 300 MB in all). For every model and size:

- f32 models lie within 1e-4 of the largest value of the interpreter's answer in double, or no farther from it than
  ONNX Runtime where that is farther (a logarithm of what cancels), and within 1e-4 of ONNX Runtime;
- of 8-bit models >= 99 % of the values lie within one quantisation step of the answer by definition, which is the
  interpreter's with every step rounded, or of ONNX Runtime's, and labels are the same (tests/oracle/judge.py says
  what a step is). Both are told: where a float decides between two integers, right engines part. A model in which
  they part so far that ONNX Runtime itself does not keep to that (layers of random weights, each of which carries on
  what the one before it rounded) decides nothing but this: diji is no farther from the definition in the mean;
- the first run may compile kernels, those at other sizes none; nothing runs on the host.

DIJI_DEVICE says which device runs them. With --against the judge is another device: both must give the same bits, since
kernels are generated and every device does the same steps in the same order.

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
HEADER = "# Whole models of tests/oracle/model_list.py; tests/oracle/real_models.py --update writes this.\n"
ERROR_MAX = 1e-4  # of the largest value
# Below that, ONNX Runtime's own logistic function is off by 1e-7 and flushes small results to 0.
WITNESS_FLOOR = 1e-2
INT8_SHARE = 0.99
MEAN_SLACK = 1.1  # of two means of the same noise


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


def keeps(steps):
    return steps.within >= INT8_SHARE and steps.same == steps.rows


class Verdict:
    """What was seen of a model, output by output."""

    def __init__(self, model):
        self.model = model
        self.error = self.distance = self.witness = 0.0  # diji to the interpreter, to ONNX Runtime; that to the first
        self.notes = []
        self.interpreter_seconds = []

    def floats(self, got, want, truth):
        near = judge.relative_error(got, want, WITNESS_FLOOR)
        self.distance = max(self.distance, near)
        if near > ERROR_MAX:
            return f"off by {near:.2e} of the largest value from ONNX Runtime"
        if truth is None:
            return None
        error, witness = judge.relative_error(got, truth), judge.relative_error(want, truth)
        self.error, self.witness = max(self.error, error), max(self.witness, witness)
        if error <= max(ERROR_MAX, 1.05 * witness):
            return None
        return f"off by {error:.2e} of the largest value from the interpreter, ONNX Runtime by {witness:.2e}"

    def int8(self, got, want, truth, scale):
        answers = {"ONNX Runtime": want} | ({} if truth is None else {"the definition": truth})
        steps = {name: judge.in_steps(got, answer, scale, self.model.labels) for name, answer in answers.items()}
        told = "; ".join(f"to {name} {seen}" for name, seen in steps.items())
        good = any(keeps(seen) for seen in steps.values())
        if truth is not None:
            witness = judge.in_steps(want, truth, scale, self.model.labels)
            told += f"; ONNX Runtime to the definition {witness}"
            if not keeps(witness):
                told = f"undecided: {told}"
                good = good or steps["the definition"].mean <= MEAN_SLACK * witness.mean
        self.notes.append(told)
        return None if good else told

    def output(self, got, want, truth, scale):
        """None, or what is wrong with one output."""
        if wrong := judge.unlike(got, want):
            return wrong
        if want.dtype.kind != "f" or want.size == 0:
            return None
        if not numpy.isfinite(got).all():
            return "NaN or infinity"
        return self.int8(got, want, truth, scale) if self.model.int8 else self.floats(got, want, truth)

    def text(self, seconds):
        times = "diji " + " ".join(f"{s:.2f}" for s in seconds) + " s"
        told = self.notes or [f"{self.distance:.1e} from ONNX Runtime"]
        if self.interpreter_seconds:
            times += ", interpreter " + " ".join(f"{s:.1f}" for s in self.interpreter_seconds) + " s"
            if not self.model.int8:
                told = [f"{self.error:.1e} from the interpreter (ONNX Runtime {self.witness:.1e})", *told]
        return "; ".join([*told, times])

    def by_others(self, options, path, feeds, session, outputs, got):
        """None, or what ONNX Runtime and the interpreter say against the outputs."""
        want = session.run(None, feeds)
        truths, scales = [None] * len(want), judge.scales_of(path) if self.model.int8 else {}
        if options.interpreter:
            arithmetic = "rounded" if self.model.int8 else "exact"
            by_definition, truths, spent = timed_run(options, path, feeds, ["--interpreter", arithmetic])
            self.interpreter_seconds.append(spent)
            if by_definition is None:
                return f"the interpreter: {truths}"
        for output, mine, theirs, truth in zip(outputs, got, want, truths, strict=True):
            if wrong := self.output(mine, theirs, truth, scales.get(output["name"])):
                return f"output '{output['name']}': {wrong}"
        return None

    def by_device(self, options, path, feeds, got):
        """None, or how the answer of the device that judges differs."""
        result, outputs, _ = timed_run(options, path, feeds, ["--device", options.against])
        if result is None:
            return f"{options.against}: {outputs}"
        for output, mine, theirs in zip(result["outputs"], got, outputs, strict=True):
            if mine.dtype != theirs.dtype or mine.shape != theirs.shape or mine.tobytes() != theirs.tobytes():
                return f"output '{output['name']}': not the bits of {options.against}"
        self.notes = [f"the bits of {options.against}"]
        return None


def check(model, options):
    """(None or the problem, a line for people)"""
    path = options.models / model.path
    if not path.exists():
        return "the file is missing", ""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3  # errors only
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    verdict, seconds = Verdict(model), []
    for number, size in enumerate(model.sizes):
        feeds = model_list.inputs_of(model, session.get_inputs(), size, number + 1)
        result, got, spent = timed_run(options, path, feeds)
        seconds.append(spent)
        if result is None:
            return got.replace(f"{options.models}/", ""), ""
        if options.against:
            wrong = verdict.by_device(options, path, feeds, got)
        else:
            wrong = verdict.by_others(options, path, feeds, session, result["outputs"], got)
        if wrong:
            return f"size {size}: {wrong}", ""
        if number > 0 and result["compiled_kernels"] > 0:
            return f"size {size}: {result['compiled_kernels']} kernels were compiled again", ""
        if result["coverage"]["host"] > 0:
            return f"{result['coverage']['host']} operators on the host", ""
    return None, verdict.text(seconds)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--diji", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="", help="the models whose name has this in it")
    parser.add_argument("--no-interpreter", dest="interpreter", action="store_false", help="ONNX Runtime alone judges")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--against", metavar="DEVICE", help="the judge: a device that must give the same bits")
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
        if problem is not None and (options.against or known.get(model.name) == "pass"):
            worse.append(model.name)
    if options.update and not (worse or options.against):
        LIST.write_text(HEADER + "".join(f"{name}\t{result}\n" for name, result in sorted(results.items())))
    print(f"whole models: {len(passed)} of {len(models)} pass; worse than before: {len(worse)}")
    sys.exit(1 if worse or not models else 0)


if __name__ == "__main__":
    main()
