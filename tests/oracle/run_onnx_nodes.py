#!/usr/bin/env python3
"""ONNX's own node tests against diji: every case whose operators diji knows, compared with a checked-in list.

    tests/oracle/run_onnx_nodes.py --diji build/release/bin/diji [--update] [--only PREFIX] [--keep DIR]
                                    [--interpreter]

tests/oracle/onnx_nodes.txt says for each case "pass" or why not. A case that passed must pass; one that passes now
and did not before is a finding too, so that the list stays true: --update writes it again, and refuses to turn a
pass into a failure. A few cases with a wrong expectation are planted, to know that a wrong answer is found.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

LIST = pathlib.Path(__file__).with_name("onnx_nodes.txt")
HEADER = "# ONNX's node tests whose operators diji knows; tests/oracle/run_onnx_nodes.py --update writes this.\n"
PLANTED = "planted_wrong_"  # prefix of the cases that must fail


def known_operators(diji):
    """{"Add": (1, 14), ...}: the first and last schema version that diji understands."""
    text = subprocess.run([diji, "docs", "onnx-ops"], stdout=subprocess.PIPE, text=True, check=True).stdout
    operators = {}
    for line in text.splitlines():
        op_type, versions = line.split()
        first, _, last = versions.partition("..")
        operators[op_type] = (int(first), int(last or first))
    return operators


def is_known(graph, opsets, operators):
    def node_is_known(node):
        if node.domain not in ("", "ai.onnx") or node.op_type not in operators:
            return False
        first, last = operators[node.op_type]
        return first <= onnx.defs.get_schema(node.op_type, opsets[""], "").since_version <= last

    return all(node_is_known(node) for node in graph.node)


def is_tensor(value):
    return isinstance(value, (numpy.ndarray, numpy.generic, onnx.TensorProto))


def as_proto(value, info):
    if isinstance(value, onnx.TensorProto):
        proto = onnx.TensorProto()
        proto.CopyFrom(value)
        proto.name = info.name
        return proto
    return numpy_helper.from_array(numpy.asarray(value), info.name)


def export(case, directory):
    (directory / "test_data_set_0").mkdir(parents=True)
    onnx.save(case.model, directory / "model.onnx")
    graph = case.model.graph
    for side, values, infos in zip(("input", "output"), case.data_sets[0], (graph.input, graph.output)):
        for number, (value, info) in enumerate(zip(values, infos)):
            path = directory / "test_data_set_0" / f"{side}_{number}.pb"
            path.write_bytes(as_proto(value, info).SerializeToString())


def plant_wrong(case, directory):
    """The same case with one element of its first output changed; False where that says nothing."""
    inputs, outputs = case.data_sets[0]
    first = outputs[0]
    if not isinstance(first, numpy.ndarray) or first.dtype != numpy.float32 or first.size < 2:
        return False
    if not numpy.isfinite(first.flat[first.size - 1]):
        return False
    wrong = first.copy()
    wrong.flat[wrong.size - 1] += 1 + abs(wrong.flat[wrong.size - 1])
    export(dataclasses.replace(case, data_sets=[(inputs, [wrong, *outputs[1:]])]), directory)
    return True


def export_all(operators, directory, prefix):
    """Writes the cases diji should be able to run and returns their names, and how many are planted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's, about the overflows these tests are for
        cases = load_model_tests(kind="node")
    names, planted = [], 0
    for case in cases:
        opsets = {entry.domain: entry.version for entry in case.model.opset_import}
        tensors = all(is_tensor(value) for side in case.data_sets[0] for value in side)
        if not tensors or not case.name.startswith(prefix) or not is_known(case.model.graph, opsets, operators):
            continue
        export(case, directory / case.name)
        names.append(case.name)
        if len(names) > 25 * planted:
            planted += plant_wrong(case, directory / f"{PLANTED}{case.name}")
    return names, planted


def rows_of(diji, directory, *options):
    command = [diji, "verify", "--onnx-cases", directory, "--json", *options]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode not in (0, 1):
        sys.exit(f"diji verify ended with {run.returncode} after {len(rows)} cases")
    return rows


def run_all(diji, directory):
    """{case: "" where it passes, else one line of reason}"""
    return {row["case"]: "" if row["ok"] else reason_of(row, directory) for row in rows_of(diji, directory)}


def reason_of(row, directory):
    """One line, without the temporary folder's name."""
    reason = row.get("reason") or f"differs by {row.get('max_abs_error')}"
    return " ".join(reason.replace(f"{directory / row['case']}/", "").split())


def judge_interpreter(diji, directory, passing):
    """The float64 interpreter on the same cases: 1 where it has another answer than a device that passes."""
    rows = rows_of(diji, directory, "--interpreter", "rounded")
    answered = [row for row in rows if row["ok"] or row["max_abs_error"] is not None]
    both = [row for row in answered if row["case"] in passing]
    differ = [row for row in both if not row["ok"]]
    for row in differ:
        print(f"{row['case']}: the device is right and the interpreter is not: {reason_of(row, directory)}")
    for row in rows:
        if row["case"] in passing and row not in both:
            print(f"{row['case']}: not interpreted: {reason_of(row, directory)}")
    missed = [row["case"] for row in rows if row["ok"] and row["case"].startswith(PLANTED)]
    for case in missed:
        print(f"{case}: a planted wrong answer was taken as right")
    print(f"interpreter: agrees on {len(both) - len(differ)} of the {len(both)} cases that both run")
    return 1 if differ or missed or not both else 0


def read_list():
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    return dict(line.split(" ", 1) for line in lines if line and not line.startswith("#"))


def compare(results, before, prefix):
    """Two lists of sentences: what got worse, and where the list is no longer true."""
    worse, stale = [], []
    for case, reason in sorted(results.items()):
        if case not in before:
            stale.append(f"{case}: new, {reason or 'pass'}")
        elif before[case] == "pass" and reason:
            worse.append(f"{case}: passed before, now: {reason}")
        elif before[case] != "pass" and not reason:
            stale.append(f"{case}: passes now")
    gone = [case for case in sorted(before) if case not in results and case.startswith(prefix)]
    worse += [f"{case}: passed before, is not run now" for case in gone if before[case] == "pass"]
    stale += [f"{case}: is not run now" for case in gone if before[case] != "pass"]
    return worse, stale


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True)
    parser.add_argument("--update", action="store_true", help="write the list again")
    parser.add_argument("--only", default="", metavar="PREFIX", help="the cases whose name begins so")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="leave the exported cases there")
    parser.add_argument(
        "--interpreter", action="store_true", help="ask too whether the float64 interpreter agrees on all that pass"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or pathlib.Path(temporary)
        names, planted = export_all(known_operators(options.diji), directory, options.only)
        results = run_all(options.diji, directory)
        right = {case for case, reason in results.items() if not reason and not case.startswith(PLANTED)}
        wrong = judge_interpreter(options.diji, directory, right) if options.interpreter else 0
    passing = [case for case, reason in results.items() if not reason]
    missed = [case for case in passing if case.startswith(PLANTED)]
    lost = [case for case in names if case not in results]
    results = {case: reason for case, reason in results.items() if case in set(names)}
    worse, stale = compare(results, read_list(), options.only)
    for sentence in [f"{case}: a planted wrong answer was taken as right" for case in missed]:
        print(sentence)
    for sentence in [f"{case}: diji gave no result" for case in lost] + worse:
        print(sentence)
    if options.update and not (missed or lost or worse or options.only):
        LIST.write_text(HEADER + "".join(f"{case} {results[case] or 'pass'}\n" for case in sorted(results)))
        stale = []
    for sentence in stale:
        print(f"{sentence} (--update writes the list)")
    passed = sum(not reason for reason in results.values())
    print(f"onnx nodes: {passed} of {len(names)} pass, {planted} planted wrong, {len(missed)} of them missed")
    return 1 if wrong or missed or lost or worse or stale or not names else 0


if __name__ == "__main__":
    sys.exit(main())
