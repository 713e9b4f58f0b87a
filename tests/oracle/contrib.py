#!/usr/bin/env python3
"""Operators of ONNX Runtime's own domain against ONNX Runtime: one node a case, the same inputs, every output.

    tests/oracle/contrib.py --diji build/release/bin/diji [--only TEXT]

Floats agree within the tolerance of their dtype. Codes of quantised results may differ by one where a value lies
between two of them within float error: in at most one element of a hundred, and one in any case.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper

OPSET, CONTRIB_VERSION, IR_VERSION = 21, 1, 10
TOLERANCES = {"float32": 1e-4, "float16": 5e-3}

RANDOM = numpy.random.default_rng(7)


def real(*shape, dtype="float32"):
    return RANDOM.standard_normal(shape).astype(dtype)


def codes(*shape, dtype="uint8"):
    limits = numpy.iinfo(dtype)
    return RANDOM.integers(limits.min, limits.max + 1, shape).astype(dtype)


def scale(*shape):
    return RANDOM.uniform(0.01, 0.03, shape).astype("float32")


def angles(positions, half, dtype="float32"):
    angle = numpy.outer(numpy.arange(positions), 10000.0 ** (-numpy.arange(half) / half))
    return numpy.cos(angle).astype(dtype), numpy.sin(angle).astype(dtype)


def cases():
    """(operator, inputs with None for absent ones, attributes, number of outputs)"""
    yield from quantised_cases()
    yield from product_cases()
    yield from fused_cases()
    yield from attention_cases()
    yield from recurrent_cases()
    yield from pool_cases()


def quantised_cases():
    for dtype in ("uint8", "int8"):
        x, zero = codes(3, 4, 5, dtype=dtype), codes(dtype=dtype)
        unary = [x, scale(), zero, scale(), codes(dtype=dtype)]
        for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
            yield op, unary, {}, 1
        other = [codes(5, dtype=dtype), scale(), codes(dtype=dtype)]
        binary = [x, scale(), zero, *other, scale(), codes(dtype=dtype)]
        yield "QLinearAdd", binary, {}, 1
        yield "QLinearMul", binary, {}, 1
        softmax = [*unary[:3], numpy.float32(1 / 256), codes(dtype=dtype) * 0]
        yield "QLinearSoftmax", softmax, {"opset": 13, "axis": -1}, 1
        yield "QLinearGlobalAveragePool", unary, {"channels_last": 0}, 1
        yield "QLinearConcat", [scale(), zero, x, scale(), zero, x, scale(), zero], {"axis": 1}, 1
    yield "QuantizeLinear", [real(3, 5), scale(3), codes(3, dtype="int8")], {"axis": 0}, 1
    yield "QuantizeLinear", [real(3, 5), scale(), codes(dtype="uint16")], {}, 1
    yield "DequantizeLinear", [codes(3, 5, dtype="int16"), scale(5), codes(5, dtype="int16")], {"axis": 1}, 1


def product_cases():
    for dtype in ("uint8", "int8"):
        weights = codes(9, 6, dtype=dtype)
        integers = [codes(4, 9), weights, scale(1), scale(6), codes(1), codes(6, dtype=dtype), real(6)]
        yield "MatMulIntegerToFloat", integers, {}, 1
        yield "DynamicQuantizeMatMul", [real(2, 4, 9), weights, scale(1), codes(1, dtype=dtype), real(6)], {}, 1
    yield "DynamicQuantizeMatMul", [real(4, 9), codes(9, 6), scale(6), codes(6)], {}, 1
    gemm = [codes(9, 4), scale(), codes(), codes(6, 9), scale(6), codes(6)]
    yield "QGemm", gemm, {"transA": 1, "transB": 1, "alpha": 0.5}, 1
    yield "QGemm", [*gemm, None, numpy.float32(0.5), codes()], {"transA": 1, "transB": 1}, 1
    for bits, k in ((4, 64), (4, 40), (8, 64)):
        blocks = (k + 31) // 32
        nbits = [real(3, k), codes(7, blocks, 32 * bits // 8), scale(7, blocks)]
        attributes = {"K": k, "N": 7, "bits": bits, "block_size": 32}
        yield "MatMulNBits", nbits, attributes, 1
        yield "MatMulNBits", [*nbits, codes(7, (blocks * bits + 7) // 8), None, real(7)], attributes, 1


def fused_cases():
    yield "FusedMatMul", [real(2, 5, 3), real(2, 4, 5)], {"transA": 1, "transB": 1, "alpha": 0.5}, 1
    yield "FusedMatMul", [real(3, 2, 5), real(2, 5, 4)], {"transBatchA": 1}, 1
    every = {"transA": 1, "transBatchA": 1, "transB": 1, "transBatchB": 1}
    yield "FusedMatMul", [real(5, 2, 3), real(4, 2, 5)], every, 1
    yield "SkipLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8), real(8)], {"epsilon": 1e-5}, 4
    yield "SkipLayerNormalization", [real(2, 3, 8), real(3, 8), real(8)], {}, 1
    yield "SkipSimplifiedLayerNormalization", [real(2, 3, 8), real(2, 3, 8), real(8), real(8)], {"epsilon": 1e-5}, 1
    yield "BiasGelu", [real(3, 17), real(17)], {}, 1
    yield "Gelu", [real(3, 17)], {}, 1
    yield "FastGelu", [real(3, 17), real(17)], {}, 1
    yield "QuickGelu", [real(3, 17)], {"alpha": 1.5}, 1
    yield ".SimplifiedLayerNormalization", [real(2, 3, 8), real(8)], {"axis": -1, "epsilon": 1e-5}, 1


def attention_cases():
    cos, sin = angles(16, 4)
    yield "RotaryEmbedding", [real(2, 3, 16), numpy.array([5]), cos, sin], {}, 1
    yield "RotaryEmbedding", [real(2, 3, 16), numpy.array([[0, 1, 2], [7, 8, 9]]), cos, sin], {"interleaved": 1}, 1
    partly = {"num_heads": 2, "rotary_embedding_dim": 8}
    yield "RotaryEmbedding", [real(2, 2, 3, 16), numpy.array([0]), cos, sin], partly, 1
    heads = {"num_heads": 4, "kv_num_heads": 2}

    def grouped(batch, new, cached, total):
        parts = [real(batch, new, 64), real(batch, new, 32), real(batch, new, 32)]
        cache = [real(batch, 2, cached, 16), real(batch, 2, cached, 16)]
        return [*parts, *cache, numpy.full(batch, total - 1, "int32"), numpy.int32(total)]

    prompt, step, shared = grouped(2, 3, 0, 3), grouped(2, 1, 4, 5), grouped(1, 1, 9, 5)
    packed = [real(2, 1, 128), None, None, *step[3:]]
    cos, sin = angles(16, 8)
    for inputs in (prompt, step, shared, packed):
        yield "GroupQueryAttention", inputs, heads, 3
        yield "GroupQueryAttention", [*inputs, cos, sin], {**heads, "do_rotary": 1, "scale": 0.3}, 3
        yield "GroupQueryAttention", inputs, {**heads, "softcap": 2.0, "local_window_size": 2}, 3
    yield "GroupQueryAttention", prompt, {**heads, "smooth_softmax": 1}, 3
    yield "GroupQueryAttention", [*step, cos, sin, None, real(2, 4, 1, 5), real(4)], heads, 3


def layer(gates, directions):
    """X, W, R, B, sequence_lens and initial_h of three sequences of different lengths."""
    sizes = [(4, 3, 2), (directions, gates * 5, 2), (directions, gates * 5, 5), (directions, gates * 10)]
    return [*(real(*size) for size in sizes), numpy.array([4, 1, 3], "int32"), real(directions, 3, 5)]


def pool_cases():
    """Norms over all of space, and windows with exponents that ONNX's tests lack."""
    for p in (1, 2, 3):
        yield ".GlobalLpPool", [real(2, 3, 5, 4)], {"p": p}, 1
        yield ".LpPool", [real(1, 2, 9)], {"p": p, "kernel_shape": [3], "strides": [2], "pads": [1, 1]}, 1


def recurrent_cases():
    """Layers with names of activations and clipping, which ONNX's tests lack, and with 8-bit weights."""
    both = {"hidden_size": 5, "direction": "bidirectional"}
    yield ".LSTM", [*layer(4, 2), real(2, 3, 5), real(2, 15)], both, 3
    lstm = {"activations": ["HardSigmoid", "Softsign", "Tanh"], "activation_alpha": [0.3], "activation_beta": [0.4]}
    yield ".LSTM", layer(4, 1), {"hidden_size": 5, **lstm}, 3
    yield ".LSTM", layer(4, 1), {"hidden_size": 5, "clip": 0.5, "direction": "reverse"}, 3
    gru = {"activations": ["Sigmoid", "LeakyRelu"], "activation_alpha": [0.2], "direction": "reverse"}
    for linear in (0, 1):
        yield ".GRU", layer(3, 1), {"hidden_size": 5, "linear_before_reset": linear, **gru}, 2
        yield ".GRU", layer(3, 2), {"linear_before_reset": linear, **both}, 2
    rnn = {"activations": ["Relu", "Affine"], "activation_alpha": [0.5], "activation_beta": [0.1]}
    yield ".RNN", layer(1, 2), {**both, **rnn}, 2
    for direction, count in (("forward", 1), ("bidirectional", 2)):
        inputs = [real(4, 1, 3), codes(count, 3, 20), codes(count, 5, 20), real(count, 40), None, None, None, None,
                  scale(count), codes(count), scale(count), codes(count)]  # fmt: skip
        yield "DynamicQuantizeLSTM", inputs, {"hidden_size": 5, "direction": direction}, 3


def model_of(op, inputs, attributes, outputs):
    """A name with a dot in front is one of the default domain."""
    names = ["" if value is None else f"in{i}" for i, value in enumerate(inputs)]
    results = [f"out{i}" for i in range(outputs)]
    domain = "" if op.startswith(".") else "com.microsoft"
    node = helper.make_node(op.lstrip("."), names, results, domain=domain, **attributes)
    ports = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
        for name, value in zip(names, inputs)
        if name
    ]
    # The weights of a layer are part of the model: ONNX Runtime wants some of them so.
    fixed = [i for i, value in enumerate(inputs) if value is not None and i > 0]
    constants = [onnx.numpy_helper.from_array(numpy.asarray(inputs[i]), names[i]) for i in fixed]
    graph = helper.make_graph([node], op, [port for port in ports if port.name == "in0"],
                              [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in results],
                              constants)  # fmt: skip
    for output in graph.output:
        output.ClearField("type")
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", CONTRIB_VERSION)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def expected_of(model, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"in0": x})


def results_of(diji, model, x, directory):
    onnx.save(model, directory / "model.onnx")
    numpy.save(directory / "in0.npy", x)
    run = subprocess.run([diji, "run", directory / "model.onnx", "--input", f"in0={directory / 'in0.npy'}",
                          "--output", directory / "results"], capture_output=True, text=True)  # fmt: skip
    if run.returncode != 0:
        return (run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1]
    return [numpy.load(directory / "results" / f"{output.name}.npy") for output in model.graph.output]


def difference(got, wanted):
    """What is wrong, or nothing."""
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"{got.dtype}{list(got.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    apart = numpy.abs(got.astype("float64") - wanted.astype("float64"))
    if wanted.dtype.kind != "f":
        off = int((apart > 0).sum())
        return "" if apart.max(initial=0) <= 1 and off <= max(1, wanted.size // 100) else f"{off} codes differ"
    tolerance = TOLERANCES[str(wanted.dtype)]
    wrong = ~(apart <= tolerance * (1 + numpy.abs(wanted)))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return f"{int(wrong.sum())} of {wrong.size}, first at {place}: {got[place]}, wanted {wanted[place]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True)
    parser.add_argument("--only", default="", metavar="TEXT", help="the operators whose name contains it")
    options = parser.parse_args()
    failed = count = planted = 0
    with tempfile.TemporaryDirectory() as temporary:
        for op, inputs, attributes, outputs in cases():
            if options.only not in op:
                continue
            inputs = [value if value is None else numpy.asarray(value) for value in inputs]
            count += 1
            directory = pathlib.Path(temporary) / str(count)
            directory.mkdir()
            model = model_of(op, inputs, attributes, outputs)
            wanted = expected_of(model, inputs[0])
            got = results_of(options.diji, model, inputs[0], directory)
            problems = [got] if isinstance(got, str) else [difference(g, w) for g, w in zip(got, wanted)]
            # A wrong answer must be found: the expectation moved by 3.
            planted += difference(wanted[0] + wanted[0].dtype.type(3), wanted[0]) != ""
            for i, problem in enumerate(problems):
                if problem:
                    print(f"{op} {attributes} output {i}: {problem}")
            failed += any(problems)
    agree = f"{count - failed} of {count} agree with ONNX Runtime {onnxruntime.__version__}"
    print(f"contrib: {agree}, {planted} planted wrong found")
    return 1 if failed or planted != count or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
