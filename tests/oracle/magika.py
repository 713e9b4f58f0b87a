#!/usr/bin/env python3
"""magika against ONNX Runtime on 50 files: same labels, right scores, warm starts, same bits for any threads and on
OpenCL.

Scores are right within 1e-5 of ONNX Runtime's. Where the two differ by more, a third judge decides: the same model in
float64 by ONNX's reference implementation. There diji must be within 1e-5 of the truth, or the nearer one and within
2e-5. (A file that is nearly all padding has a variance near zero, computed as a difference: float32 sums lose it.)

    tests/oracle/magika.py --diji build/release/bin/diji --model DIR    (DIR as scripts/fetch-model prints it)
"""

import argparse
import bz2
import gzip
import io
import json
import lzma
import os
import pathlib
import random
import struct
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import wave
import zipfile
import zlib

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = 50
BATCHES = (1, 2, 7, 32, 8)  # together 50
SCORE_ERROR_MAX = 1e-5  # against ONNX Runtime
TRUTH_ERROR_MAX = 2e-5  # against float64, where ONNX Runtime itself is further away
BLOCK_BYTES, SIDE_BYTES, PADDING = 4096, 1024, 256  # of magika's model configuration
CPU_LEVELS = {"scalar": set(), "avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512vl", "avx512dq"}}


# ---- 50 inputs: sources of this project, of Python, and binary files made here ----


def png(width=32, height=32):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + bytes((x * y) % 256 for x in range(width * 3)) for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def written(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def write_wav(stream):
    with wave.open(stream, "wb") as sound:
        sound.setparams((1, 2, 8000, 0, "NONE", ""))
        sound.writeframes(bytes(range(256)) * 20)


def made_files(text):
    def write_zip(stream):
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("text.txt", text)

    def write_tar(stream):
        with tarfile.open(fileobj=stream, mode="w") as archive:
            entry = tarfile.TarInfo("text.txt")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))

    table = [{"name": f"row {n}", "value": n * n, "ok": n % 2 == 0} for n in range(40)]
    return {
        "png": png(),
        "zip": written(write_zip),
        "gzip": gzip.compress(text, mtime=0),
        "bzip": bz2.compress(text),
        "xz": lzma.compress(text),
        "tar": written(write_tar),
        "wav": written(write_wav),
        "elf": pathlib.Path(os.path.realpath(sys.executable)).read_bytes(),
        "json": json.dumps(table, indent=1).encode(),
        "eight bytes": b"int a=1;",
        "blanks around": b" \n\t" * 2000 + text[:300] + b"\n" * 5000,
        "only blanks": b" " * 100,
        "random bytes": random.Random(1).randbytes(5000),
    }


def fifty_files():
    """(name, bytes, the label it must get or None)"""
    own = sorted(p for kind in ("*/*.cpp", "*/*.h", "scripts/*", "*.md") for p in ROOT.glob(kind) if p.is_file())
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    python = [library / f"{name}.py" for name in ("os", "ast", "json/decoder", "argparse", "typing", "socket")]
    text = python[0].read_bytes()
    sure = {"png", "zip", "gzip", "bzip", "xz", "elf", "json"}
    files = [(name, data, name if name in sure else None) for name, data in made_files(text).items()]
    files += [(str(path.name), path.read_bytes(), "python") for path in python]
    step = max(1, len(own) // (FILES - len(files)))
    files += [(path.name, path.read_bytes(), None) for path in own[::step]]
    files += [(path.name, path.read_bytes(), None) for path in sorted(library.glob("*.py"))]
    return files[:FILES]


def features(data):
    """magika's own: the first and last block, blanks stripped outside, cut to 1024 bytes, padded with 256."""
    begin = list(data[:BLOCK_BYTES].lstrip()[:SIDE_BYTES])
    end = list(data[-BLOCK_BYTES:].rstrip()[-SIDE_BYTES:])
    return begin + [PADDING] * (SIDE_BYTES - len(begin)) + [PADDING] * (SIDE_BYTES - len(end)) + end


# ---- the judges ----


def in_float64(model):
    """The model with every float32 tensor and cast as float64."""
    single, double = onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE
    for tensor in model.graph.initializer:
        if tensor.data_type == single:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(numpy.float64), tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.name == "to" and attribute.i == single:
                attribute.i = double
    for info in model.graph.output:
        info.type.tensor_type.elem_type = double
    del model.graph.value_info[:]
    return model


class GlobalMaxPool(OpRun):
    """ONNX's own drops the pooled axis of 3-d inputs."""

    op_domain = ""

    def _run(self, x):
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class Judges:
    def __init__(self, path, inputs):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        self.inputs = inputs
        (self.runtime,) = session.run(["target_label"], {"bytes": inputs})
        self.exact = ReferenceEvaluator(in_float64(onnx.load(path)), new_ops=[GlobalMaxPool])

    def verdict(self, scores):
        """(whether all rows are right, a sentence)"""
        runtime = self.runtime[: len(scores)]
        differences = numpy.abs(scores - runtime).max(axis=1)
        doubtful = numpy.flatnonzero(differences > SCORE_ERROR_MAX)
        within = differences[differences <= SCORE_ERROR_MAX].max(initial=0)
        sentence = f"{len(scores) - len(doubtful)} of {len(scores)} files within {within:.2g} of ONNX Runtime's scores"
        right = len(doubtful) * 5 <= len(scores)  # more would be no exception any more
        if len(doubtful):
            (truth,) = self.exact.run(None, {"bytes": self.inputs[doubtful]})
            ours = numpy.abs(scores[doubtful] - truth).max(axis=1)
            theirs = numpy.abs(runtime[doubtful] - truth).max(axis=1)
            near = ours <= numpy.maximum(theirs, SCORE_ERROR_MAX)
            right &= bool(near.all() and (ours <= TRUTH_ERROR_MAX).all())
            sentence += f"; {len(doubtful)} where float64 says diji is {ours.max():.2g} off and it {theirs.max():.2g}"
        return right, sentence


# ---- diji as a process ----


class Diji:
    def __init__(self, diji, model, directory):
        self.diji, self.model, self.directory = diji, model, directory
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(directory / "cache"))
        self.count = 0

    def run(self, batch, *arguments, **environment):
        """(scores, the JSON answer, whether the process loaded LLVM)"""
        self.count += 1
        here = self.directory / f"run{self.count}"
        here.mkdir()
        numpy.save(here / "bytes.npy", batch)
        command = [self.diji, "run", self.model, "--input", f"bytes={here / 'bytes.npy'}", "--output", here, "--json"]
        linker = {"LD_DEBUG": "files", "LD_DEBUG_OUTPUT": str(here / "linker")}
        environment = self.environment | linker | environment
        run = subprocess.run([*command, *arguments], stdout=subprocess.PIPE, text=True, env=environment)
        if run.returncode != 0:
            sys.exit(f"{' '.join(map(str, run.args))} ended with {run.returncode}")
        answer = json.loads(run.stdout)
        loaded = "".join(log.read_text(errors="replace") for log in here.glob("linker.*"))
        return numpy.load(here / answer["outputs"][0]["file"]), answer, "libLLVM" in loaded


class Checks:
    def __init__(self):
        self.failed = 0

    def that(self, holds, sentence):
        print(f"{'ok    ' if holds else 'FAILED'} {sentence}")
        self.failed += not holds


def check_answers(checks, diji, files, judges, labels):
    """Batches of several sizes, each in a process of its own over one cache."""
    scores, begin = [], 0
    for number, size in enumerate(BATCHES):
        got, answer, llvm = diji.run(judges.inputs[begin : begin + size])
        scores.append(got)
        begin += size
        compiled = answer["compiled_kernels"]
        if number == 0:
            checks.that(compiled > 0 and llvm, f"batch {size}, cold: {compiled} kernels compiled, LLVM loaded")
        else:
            checks.that(compiled == 0 and not llvm, f"batch {size}, warm: {compiled} compiled, LLVM loaded: {llvm}")
    scores = numpy.concatenate(scores)
    checks.that(*judges.verdict(scores))
    same = scores.argmax(axis=1) == judges.runtime.argmax(axis=1)
    checks.that(same.all(), f"{same.sum()} of {len(files)} labels are the same")
    sure = [(name, label, labels[row.argmax()]) for (name, _, label), row in zip(files, scores) if label]
    wrong = [f"{name} is {found}" for name, label, found in sure if label != found]
    checks.that(not wrong, f"{len(sure)} files of known type: {', '.join(wrong) or 'all named right'}")


def check_threads_and_levels(checks, diji, judges):
    inputs = judges.inputs[:32]
    first = diji.run(inputs, "--threads", "1")[0]
    for threads in (2, 3, 7):
        same = diji.run(inputs, "--threads", str(threads))[0].tobytes() == first.tobytes()
        checks.that(same, f"{threads} threads: same bits as with one")
    features_here = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            features_here = set(line.split())
    for level, needed in CPU_LEVELS.items():
        if not needed <= features_here:
            print(f"left   DIJI_CPU={level}: this machine cannot")
            continue
        got = diji.run(inputs, DIJI_CPU=level)[0]
        same = numpy.array_equal(got.argmax(axis=1), judges.runtime[: len(got)].argmax(axis=1))
        right, sentence = judges.verdict(got)
        checks.that(same and right, f"DIJI_CPU={level}: {'same' if same else 'other'} labels, {sentence}")


def check_device(checks, diji, judges, device):
    inputs = judges.inputs[: BATCHES[2]]
    scores, answer, _ = diji.run(inputs, "--device", device)
    same, host = scores.tobytes() == diji.run(inputs)[0].tobytes(), answer["coverage"]["host"]
    seconds = answer["latency_ms"]["first"] / 1000
    checks.that(same and host == 0, f"{device}: same bits: {same}, operators on the host: {host}, cold {seconds:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--model", required=True, type=pathlib.Path)
    options = parser.parse_args()
    files = fifty_files()
    inputs = numpy.array([features(data) for _, data, _ in files], dtype=numpy.int32)
    labels = (options.model / "labels.txt").read_text().split()
    judges = Judges(options.model / "model.onnx", inputs)
    checks = Checks()
    checks.that(len(files) == FILES == sum(BATCHES), f"{len(files)} files")
    with tempfile.TemporaryDirectory() as directory:
        diji = Diji(options.diji, options.model / "model.onnx", pathlib.Path(directory))
        check_answers(checks, diji, files, judges, labels)
        check_threads_and_levels(checks, diji, judges)
        check_device(checks, diji, judges, "opencl:0")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
