#!/usr/bin/env python3
"""One engine that users could take in diji's place, in a process of its own: says who it is, then runs when told.

    peer.py onnxruntime THREADS MODEL NAME=FILE.npy...      a model on these inputs
    peer.py numpy|torch THREADS M N K DTYPE                 a product of matrices, into memory that is there
    peer.py numpy|torch THREADS op NAME NAME=FILE.npy...    an operator by diji's name on these inputs, in their order

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


# What NumPy and torch call operators of diji where both mean the same; those of one name are listed once.
SAME = """add mod pow equal less greater where exp log sqrt reciprocal floor ceil sin cos tan sinh cosh tanh abs sign
    matmul bitwise_and bitwise_or bitwise_xor bitwise_not""".split()
NUMPY = {name: name for name in SAME} | {
    "sub": "subtract", "mul": "multiply", "div": "divide", "max": "maximum", "min": "minimum", "neg": "negative",
    "less_or_equal": "less_equal", "greater_or_equal": "greater_equal", "round": "rint", "is_nan": "isnan",
    "is_inf": "isinf", "and": "logical_and", "or": "logical_or", "xor": "logical_xor", "not": "logical_not",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
}  # fmt: skip
TORCH = {name: name for name in SAME if name != "mod"} | {
    "sub": "sub", "mul": "mul", "div": "div", "max": "maximum", "min": "minimum", "neg": "neg", "mod": "remainder",
    "less_or_equal": "le", "greater_or_equal": "ge", "round": "round", "is_nan": "isnan", "is_inf": "isinf",
    "and": "logical_and", "or": "logical_or", "xor": "logical_xor", "not": "logical_not", "asin": "asin",
    "acos": "acos", "atan": "atan", "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf",
    "relu": "relu", "sigmoid": "sigmoid", "selu": "selu",
}  # fmt: skip


def loaded(inputs):
    import numpy

    return {name: numpy.load(file) for name, _, file in (word.rpartition("=") for word in inputs)}


def onnxruntime_job(threads, model, *inputs):
    feeds = loaded(inputs)
    engine = OnnxRuntime(model, threads)
    return engine.version, lambda: engine.run(feeds)


def numpy_job(threads, m, n, k, *rest):
    import numpy

    if m == "op":
        function, values = getattr(numpy, NUMPY.get(n) or sys.exit(f"no operator {n}")), loaded([k, *rest]).values()
        if not isinstance(function, numpy.ufunc):
            return numpy.__version__, lambda: function(*values)
        out = function(*values)
        return numpy.__version__, lambda: function(*values, out=out)
    (dtype,) = rest
    dtype = {"f32": "float32", "f64": "float64"}.get(dtype) or sys.exit(f"no fast product of {dtype}")
    random = numpy.random.default_rng(1)
    a, b = (random.standard_normal((int(x), int(y))).astype(dtype) for x, y in ((m, k), (k, n)))
    out = numpy.empty((int(m), int(n)), dtype)
    return numpy.__version__, lambda: numpy.matmul(a, b, out=out)


def torch_job(threads, m, n, k, *rest):
    import torch

    torch.set_num_threads(threads)
    if m == "op":
        function = getattr(torch, TORCH.get(n) or sys.exit(f"no operator {n}"))
        values = [torch.from_numpy(value) for value in loaded([k, *rest]).values()]
        return torch.__version__, lambda: function(*values)
    (dtype,) = rest
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
