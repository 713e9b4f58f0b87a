#!/usr/bin/env python3
"""One engine that users could take in diji's place, in a process of its own: says who it is, then runs when told.

    peer.py onnxruntime THREADS MODEL NAME=FILE.npy...      a model on these inputs
    peer.py numpy|torch THREADS M N K DTYPE                 a product of matrices, into memory that is there

The first line on stdout is {"version": ...} or {"absent": why}. For each line "N" on stdin the engine runs once
untimed and N times timed, and answers {"seconds": [...]} or {"error": why}. The end of stdin ends it.
"""

import json
import os
import sys
import time


class OnnxRuntime:
    def __init__(self, path, threads):
        import onnxruntime

        self.version = onnxruntime.__version__
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def run(self, feeds):
        return self.session.run(None, feeds)


def onnxruntime_job(threads, model, *inputs):
    import numpy

    feeds = {name: numpy.load(file) for name, _, file in (word.rpartition("=") for word in inputs)}
    engine = OnnxRuntime(model, threads)
    return engine.version, lambda: engine.run(feeds)


def numpy_job(threads, m, n, k, dtype):
    import numpy

    dtype = {"f32": "float32", "f64": "float64"}.get(dtype) or sys.exit(f"no fast product of {dtype}")
    random = numpy.random.default_rng(1)
    a, b = (random.standard_normal((int(x), int(y))).astype(dtype) for x, y in ((m, k), (k, n)))
    out = numpy.empty((int(m), int(n)), dtype)
    return numpy.__version__, lambda: numpy.matmul(a, b, out=out)


def torch_job(threads, m, n, k, dtype):
    import torch

    torch.set_num_threads(threads)
    names = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
    dtype = getattr(torch, names.get(dtype) or sys.exit(f"no fast product of {dtype}"))
    a, b = torch.randn(int(m), int(k)).to(dtype), torch.randn(int(k), int(n)).to(dtype)
    out = torch.empty(int(m), int(n), dtype=dtype)
    return torch.__version__, lambda: torch.mm(a, b, out=out)


JOBS = {"onnxruntime": onnxruntime_job, "numpy": numpy_job, "torch": torch_job}


def timed(job, runs):
    seconds = []
    job()
    for _ in range(runs):
        start = time.perf_counter()
        job()
        seconds.append(time.perf_counter() - start)
    return seconds


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what engines print themselves is no answer
    engine, threads, *words = sys.argv[1:]
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = threads

    def answer(**fields):
        print(json.dumps(fields), file=answers, flush=True)

    try:
        version, job = JOBS[engine](int(threads), *words)
    except (Exception, SystemExit) as error:  # whatever it is, the one who asked tells it
        return answer(absent=f"{error}".strip().partition("\n")[0] or type(error).__name__)
    answer(version=version)
    for line in sys.stdin:
        try:
            answer(seconds=timed(job, int(line)))
        except Exception as error:
            return answer(error=f"{error}".partition("\n")[0] or type(error).__name__)


if __name__ == "__main__":
    main()
