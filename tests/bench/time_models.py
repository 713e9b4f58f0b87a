#!/usr/bin/env python3
"""Times whole models in diji and ONNX Runtime, turn by turn, on the same inputs; decides no test.

    ninja -C build/release diji diji_shared
    .venv/bin/python tests/bench/time_models.py --models build/models [--only NAME] [--threads 1] [--rounds 7] [--fixed]

The folder is that of tests/oracle/real_models.py. Each engine keeps a process of its own for a model; they take turns
in blocks of about 0.1 s that begin with an untimed run, so that what disturbs this machine disturbs both. Times are
medians of the blocks' medians; a ratio is the median over the rounds, with its smallest and largest. With --fixed the
model with the sizes of these inputs written into it runs too: what it costs that one program serves all sizes.
"""

import argparse
import math
import multiprocessing
import pathlib
import re
import statistics
import sys
import tempfile
import time

import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/oracle"), str(ROOT / "tools/peers")]
import diji_c  # noqa: E402
import judge  # noqa: E402
import model_list  # noqa: E402
import peer  # noqa: E402
import real_models  # noqa: E402

BLOCK_SECONDS = 0.1


class Diji(diji_c.Model):
    def facts(self):
        return self.coverage()


class OnnxRuntime(peer.OnnxRuntime):
    def __init__(self, path, threads, build):
        super().__init__(path, threads)

    def facts(self):
        return [model_list.Port(port.name, port.type) for port in self.session.get_inputs()]

    def prepare(self, feeds):
        return feeds

    def finish(self, outputs):
        return outputs

    def forget(self, outputs):
        pass


def peak_mib():
    return int(re.search(r"VmHWM:\s+(\d+)", pathlib.Path("/proc/self/status").read_text())[1]) / 1024


def serve(pipe, engine, *arguments):
    """A process of one engine: says what it knows, then answers (feeds, runs) with (seconds, outputs, peak MiB)."""
    try:
        engine = engine(*arguments)
        pipe.send(engine.facts())
        while request := pipe.recv():
            feeds, runs = request
            inputs, seconds = engine.prepare(feeds), []
            outputs = engine.finish(engine.run(inputs))
            for _ in range(runs):
                start = time.perf_counter()
                result = engine.run(inputs)
                seconds.append(time.perf_counter() - start)
                engine.forget(result)
            pipe.send((seconds, outputs, peak_mib()))
    except Exception as error:  # whatever it is, the other process tells it
        pipe.send(error)


class Worker:
    def __init__(self, *arguments):
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, *arguments), daemon=True)
        self.process.start()
        other.close()
        self.facts = self.receive()
        self.runs, self.medians = 1, []

    def receive(self):
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def block(self, feeds):
        self.pipe.send((feeds, self.runs))
        seconds, self.outputs, self.peak = self.receive()
        self.medians.append(statistics.median(seconds))
        self.runs = max(1, min(1000, int(BLOCK_SECONDS / self.medians[-1])))

    def milliseconds(self):
        return 1e3 * statistics.median(self.medians)

    def close(self):
        self.pipe.send(None)
        self.process.join()


def with_sizes(path, feeds, target):
    """A copy of the model for these inputs only: every symbol is replaced by its size."""
    model, sizes = onnx.load(path), {}
    for port in model.graph.input:
        if port.name not in feeds:
            continue
        for dim, size in zip(port.type.tensor_type.shape.dim, feeds[port.name].shape):
            if dim.dim_param:
                sizes[dim.dim_param] = size
            dim.dim_value = size
    for port in [*model.graph.output, *model.graph.value_info]:
        for dim in port.type.tensor_type.shape.dim:
            if dim.dim_param in sizes:
                dim.dim_value = sizes[dim.dim_param]
    onnx.save(model, target)


def ratios(worker, other):
    """Round by round: median, smallest, largest."""
    values = [a / b for a, b in zip(worker.medians, other.medians)]
    return statistics.median(values), min(values), max(values)


def text_of(ratio):
    return "{:.2f} ({:.2f}-{:.2f})".format(*ratio)


def measure(model, options, folder):
    """{column: text} and {column: number} of one model."""
    path, workers = options.models / model.path, {}
    try:
        workers["ort"] = Worker(OnnxRuntime, path, options.threads, options.build)
        workers["diji"] = Worker(Diji, path, options.threads, options.build)
        feeds = model_list.inputs_of(model, workers["ort"].facts, model.sizes[0], 1)
        if options.fixed:
            with_sizes(path, feeds, folder / "fixed.onnx")
            workers["fixed"] = Worker(Diji, folder / "fixed.onnx", options.threads, options.build)
        for number in range(options.rounds + 1):
            for worker in workers.values():
                time.sleep(0.1 if options.threads > 1 else 0)  # until the others' threads have stopped spinning
                worker.block(feeds)
            if number == 0:  # it found how many runs a block has
                for worker in workers.values():
                    worker.medians.clear()
        return row_of(model, options, folder, path, workers)
    finally:
        for worker in workers.values():
            worker.close()


def row_of(model, options, folder, path, workers):
    diji, ort = workers["diji"], workers["ort"]
    ratio = ratios(diji, ort)
    floats = [(a, b) for a, b in zip(diji.outputs, ort.outputs, strict=True) if b.dtype.kind == "f"]
    host = re.search(r"(\d+) on the host", diji.facts)[1]
    row = {
        "model": model.name,
        "diji ms": f"{diji.milliseconds():.3g}",
        "ORT ms": f"{ort.milliseconds():.3g}",
        "diji/ORT": text_of(ratio),
        "max|d|/max|ref|": f"{max(judge.relative_error(a, b) for a, b in floats):.1e}",
        "labels": "-",
        "host": f"{host} of {diji.facts.split()[0]}",
        "new kernels": "-",
        "peak MiB": f"{diji.peak:.0f} / {ort.peak:.0f}",
    }
    if model.labels:
        rows = [(a.argmax(-1), b.argmax(-1)) for a, b in floats]
        row["labels"] = f"{sum((a == b).sum() for a, b in rows)} of {sum(a.size for a, _ in rows)}"
    if len(model.sizes) > 1:  # the worker has compiled everything, whatever the sizes
        feeds = model_list.inputs_of(model, ort.facts, model.sizes[1], 2)
        result, problem = real_models.run_diji(options.build / "bin/diji", path, feeds, folder)
        row["new kernels"] = str(result["compiled_kernels"]) if result else problem
    numbers = {"diji/ORT": ratio[0]}
    if options.fixed:
        cost = ratios(diji, workers["fixed"])
        row["symbolic/fixed"], numbers["symbolic/fixed"] = text_of(cost), cost[0]
    return row, numbers


WIDTHS = (32, 8, 8, 18, 16, 10, 12, 11, 14, 18)


def line_of(cells):
    return " ".join(f"{cell:<{width}}" for cell, width in zip(cells, WIDTHS)).rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--only", default="", help="the models whose name has this in it")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fixed", action="store_true", help="beside the same model with its sizes written into it")
    options = parser.parse_args()
    numbers, failed = [], 0
    for model in model_list.present(options.models):
        if options.only not in model.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                row, row_numbers = measure(model, options, pathlib.Path(folder))
            except (RuntimeError, EOFError) as error:
                print(f"{model.name}: {error}", flush=True)
                failed += 1
                continue
        if not numbers:
            print(line_of(row))
        print(line_of(row.values()), flush=True)
        numbers.append(row_numbers)
    for column in numbers[0] if numbers else ():
        mean = math.exp(statistics.fmean(math.log(row[column]) for row in numbers))
        worst = max(row[column] for row in numbers)
        print(f"{column}: geometric mean {mean:.2f} over {len(numbers)} models, largest {worst:.2f}")
    return 1 if failed or not numbers else 0


if __name__ == "__main__":
    sys.exit(main())
