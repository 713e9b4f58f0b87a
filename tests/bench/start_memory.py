#!/usr/bin/env python3
"""From nothing to a model's first result: seconds and peak memory of diji and ONNX Runtime, a process each time.

    ninja -C build/release diji_shared
    .venv/bin/python tests/bench/start_memory.py --models build/models [--only NAME...] [--threads 2] [--rounds 5]

Every start is a new Python process that has NumPy and the inputs already; the clock runs from there, over loading the
engine and the model, to the outputs of the first run, and the peak is the process's VmHWM. diji starts cold (an empty
compile cache) and warm (the cache that a cold start left); the model's file is in the page cache for all. The three
take turns; medians of the rounds, with the smallest and largest. Exit code 1: a peak of diji's is above ONNX Runtime's.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/oracle"), str(ROOT / "tools/peers")]
import diji_c  # noqa: E402
import judge  # noqa: E402
import model_list  # noqa: E402
import peer  # noqa: E402

MODELS = ("open-nsfw", "mobilenetv2.onnx", "resnet50", "bert")
WAYS = ("diji cold", "diji warm", "ONNX Runtime")
HEADINGS = ("model", "MB", "started", "ms", "least - most", "peak MiB", "least - most", "of ONNX Runtime's")


def start(way, path, feeds, threads, build, outputs):
    """In a process of its own: the first result, and what it took."""
    feeds = dict(numpy.load(feeds))
    begin = time.perf_counter()
    if way == "ONNX Runtime":
        result = peer.OnnxRuntime(path, threads).run(feeds)
    else:
        result = diji_c.Model(path, threads, build)(feeds)
    seconds = time.perf_counter() - begin
    peak = re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]
    numpy.savez(outputs, *result)
    print(seconds, int(peak) / 1024)


class Starts:
    """The starts of one model: (seconds, MiB) by way, and what came out last."""

    def __init__(self, model, options, folder):
        self.path, self.options, self.folder = options.models / model.path, options, folder
        self.measured = {way: [] for way in WAYS}
        self.outputs = {}
        self.feeds = folder / "feeds.npz"
        numpy.savez(self.feeds, **model_list.inputs_of(model, ports_of(self.path), model.sizes[0], 1))

    def one(self, way, cache):
        out = self.folder / "outputs.npz"
        words = [way, self.path, self.feeds, self.options.threads, self.options.build, out]
        environment = os.environ | {"DIJI_CACHE_DIR": str(cache)}
        command = [sys.executable, __file__, "--start", *map(str, words)]
        run = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
        self.measured[way].append(tuple(map(float, run.stdout.split())))
        with numpy.load(out) as arrays:
            self.outputs[way] = [arrays[name] for name in arrays.files]

    def round(self):
        with tempfile.TemporaryDirectory(dir=self.folder) as cache:
            for way in WAYS:  # the warm start has what the cold one left
                self.one(way, cache)

    def check(self):
        """Cold and warm give the same bits, and ONNX Runtime's answer but for roundings."""
        cold, warm, ort = (self.outputs[way] for way in WAYS)
        if any(a.tobytes() != b.tobytes() for a, b in zip(cold, warm, strict=True)):
            raise RuntimeError("a warm start gives other bits than a cold one")
        return max(judge.relative_error(a, b) for a, b in zip(cold, ort, strict=True) if b.dtype.kind == "f")

    def rows(self, name):
        peaks = {way: statistics.median(mib for _, mib in all_of) for way, all_of in self.measured.items()}
        for way, all_of in self.measured.items():
            ms, mib = sorted(1e3 * seconds for seconds, _ in all_of), sorted(mib for _, mib in all_of)
            share = peaks[way] / peaks[WAYS[-1]]
            size = f"{self.path.stat().st_size / 1e6:.1f}"
            cells = (name, size, way, f"{statistics.median(ms):.0f}", f"{ms[0]:.0f} - {ms[-1]:.0f}")
            yield (*cells, f"{peaks[way]:.0f}", f"{mib[0]:.0f} - {mib[-1]:.0f}", f"{share:.2f}"), share <= 1


def ports_of(path):
    """Inputs with their types, without a session in this process."""
    import onnx

    names = {1: "float", 6: "int32", 7: "int64"}
    graph = onnx.load(path, load_external_data=False).graph
    weights = {weight.name for weight in graph.initializer}
    elements = {port.name: port.type.tensor_type.elem_type for port in graph.input if port.name not in weights}
    return [model_list.Port(name, f"tensor({names[element]})") for name, element in elements.items()]


def line_of(cells):
    return "| " + " | ".join(cells) + " |"


def main():
    if sys.argv[1:2] == ["--start"]:
        way, path, feeds, threads, build, outputs = sys.argv[2:]
        return start(way, path, feeds, int(threads), pathlib.Path(build), outputs)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", nargs="*", default=MODELS, help=f"parts of the models' names: {MODELS}")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    wanted = [model for model in model_list.present(options.models) if any(part in model.name for part in options.only)]
    good, errors = bool(wanted), {}
    for model in wanted:
        with tempfile.TemporaryDirectory() as folder:
            starts = Starts(model, options, pathlib.Path(folder))
            for _ in range(options.rounds):
                starts.round()
            errors[model.name] = starts.check()
        if model is wanted[0]:
            print(line_of(HEADINGS) + "\n" + "|---|--:|---|--:|--:|--:|--:|--:|")
        for cells, within in starts.rows(model.name):
            print(line_of(cells), flush=True)
            good &= within
    for name, error in errors.items():
        print(f"{name}: largest difference from ONNX Runtime's answer {error:.1e} of its largest value")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
