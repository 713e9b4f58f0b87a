#!/usr/bin/env python3
"""Operators that draw random numbers against Philox4x32-10 of another library (randomgen), and against the laws that
such numbers obey: moments, the distribution's shape, no two runs, nodes or iterations alike, every device the same.

    tests/oracle/random_numbers.py --diji build/release/bin/diji [--devices cpu,opencl:0]
"""

import argparse
import math
import os
import pathlib
import sys
import tempfile

import numpy
import onnx
import randomgen
from onnx import TensorProto, helper

import diji_c

SEED = 0x0123456789ABCDEF
STREAM = 3.5  # an attribute "seed"; its bits as a float are the stream's number
DTYPES = {"f4": TensorProto.FLOAT, "f2": TensorProto.FLOAT16, "f8": TensorProto.DOUBLE}
PROBLEMS = []


def expect(holds, what):
    if not holds:
        PROBLEMS.append(what)
        print(f"WRONG {what}")


# ---- the same numbers in another way


def philox(counter, key):
    """Words (..., 4) of counters (..., 4), all u64 below 2^32. Checked against randomgen below."""
    c = [numpy.asarray(counter[..., i], "u8") for i in range(4)]
    low, high = key & 0xFFFFFFFF, key >> 32
    word = numpy.uint64(0xFFFFFFFF)
    for number in range(10):
        k0 = numpy.uint64((low + number * 0x9E3779B9) & 0xFFFFFFFF)
        k1 = numpy.uint64((high + number * 0xBB67AE85) & 0xFFFFFFFF)
        p, q = c[0] * numpy.uint64(0xD2511F53), c[2] * numpy.uint64(0xCD9E8D57)
        c = [(q >> numpy.uint64(32)) ^ c[1] ^ k0, q & word, (p >> numpy.uint64(32)) ^ c[3] ^ k1, p & word]
    return numpy.stack(c, -1)


def check_philox():
    random = numpy.random.default_rng(1)
    for _ in range(300):
        counter = random.integers(0, 1 << 32, 4, "u8")
        key = int(random.integers(0, 1 << 63))
        number = sum(int(word) << (32 * i) for i, word in enumerate(counter))
        # Its first numbers are those of the counter behind the one that it is made with.
        other = randomgen.Philox(counter=(number - 1) % (1 << 128), key=key, number=4, width=32)
        if not numpy.array_equal(philox(counter, key), other.random_raw(4)):
            sys.exit("the oracle is no Philox4x32-10")


def key_of(seed, run):
    words = philox(numpy.array([run & 0xFFFFFFFF, run >> 32, 0, 0]), seed)
    return int(words[0]) | int(words[1]) << 32


def words_of(shape, key, stream):
    position = numpy.arange(math.prod(shape), dtype="u8")
    lanes = [position & numpy.uint64(0xFFFFFFFF), position >> numpy.uint64(32)]
    lanes += [numpy.full_like(position, stream & 0xFFFFFFFF), numpy.full_like(position, stream >> 32)]
    return philox(numpy.stack(lanes, -1), key).reshape(*shape, 4)


def uniform_of(words, dtype):
    if dtype == "f8":
        return ((words[..., 0] >> numpy.uint64(5)) << numpy.uint64(26) | words[..., 1] >> numpy.uint64(6)) * 2.0**-53
    return (words[..., 0] >> numpy.uint64(8)) * 2.0**-24


def normal_of(words, dtype):
    if dtype == "f8":
        u = ((words[..., 0] >> numpy.uint64(5)) << numpy.uint64(26) | words[..., 1] >> numpy.uint64(6)) * 2.0**-53
        v = ((words[..., 2] >> numpy.uint64(5)) << numpy.uint64(26) | words[..., 3] >> numpy.uint64(6)) * 2.0**-53
        return numpy.sqrt(-2 * numpy.log(u + 2.0**-54)) * numpy.cos(2 * numpy.pi * v)
    u, v = words[..., 0] * 2.0**-32 + 2.0**-33, words[..., 1] * 2.0**-32
    return numpy.sqrt(-2 * numpy.log(u)) * numpy.cos(2 * numpy.pi * v)


# ---- models


def bits_of(seed):
    return int(numpy.float32(seed).view("u4"))


class Bench:
    """Runs models on each device and demands the same bits of all."""

    def __init__(self, build, folder, devices):
        self.build, self.folder, self.devices, self.count = build, folder, devices, 0

    def outputs(self, nodes, outputs, inputs=(), feeds=None, runs=1):
        """[[array]], by run. `inputs` are (name, type, shape), `outputs` (name, type)."""
        graph = helper.make_graph(
            nodes, "random", [helper.make_tensor_value_info(*each) for each in inputs],
            [helper.make_tensor_value_info(*each, None) for each in outputs],
        )  # fmt: skip
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
        self.count += 1
        path = self.folder / f"{self.count}.onnx"
        onnx.save(model, path)
        answers = {}
        for device in self.devices:
            loaded = diji_c.Model(path, 2, self.build, device=device, seed=SEED)
            answers[device] = [loaded(feeds or {}) for _ in range(runs)]
        first, *others = answers.values()
        for device, other in zip(self.devices[1:], others):
            same = all(numpy.array_equal(a, b) for x, y in zip(first, other) for a, b in zip(x, y))
            expect(same, f"{nodes[0].op_type} on {device}: other numbers than on {self.devices[0]}")
        return first


def check_uniform(bench):
    shape = (7, 1000)
    for dtype, number in DTYPES.items():
        node = helper.make_node("RandomUniform", [], ["y"], shape=shape, low=-2.0, high=3.0, seed=STREAM, dtype=number)
        for run, (got,) in enumerate(bench.outputs([node], [("y", number)], runs=3)):
            u = uniform_of(words_of(shape, key_of(SEED, run), bits_of(STREAM)), dtype)
            width = "f4" if dtype == "f2" else dtype
            wanted = (u.astype(width) * numpy.array(5, width) + numpy.array(-2, width)).astype(dtype)
            expect(got.dtype == dtype and numpy.array_equal(got, wanted), f"RandomUniform {dtype}, run {run}")


def check_normal(bench):
    shape = (20000,)
    for dtype, tolerance in (("f4", 3e-6), ("f2", 4e-3), ("f8", 1e-14)):
        node = helper.make_node("RandomNormal", [], ["y"], shape=shape, mean=1.0, scale=2.0, seed=STREAM,
                                dtype=DTYPES[dtype])  # fmt: skip
        ((got,),) = bench.outputs([node], [("y", DTYPES[dtype])])
        wanted = 1 + 2 * normal_of(words_of(shape, key_of(SEED, 0), bits_of(STREAM)), dtype)
        expect(numpy.abs(got - wanted).max() <= tolerance * 8, f"RandomNormal {dtype}")


def check_like(bench):
    x = numpy.zeros((3, 5), "f8")
    nodes = [helper.make_node(f"{name}Like", ["x"], [name], seed=STREAM) for name in ("RandomUniform", "RandomNormal")]
    outputs = [("RandomUniform", TensorProto.DOUBLE), ("RandomNormal", TensorProto.DOUBLE)]
    ((uniform, normal),) = bench.outputs(nodes, outputs, [("x", TensorProto.DOUBLE, (3, 5))], {"x": x})
    words = words_of((3, 5), key_of(SEED, 0), bits_of(STREAM))
    expect(numpy.array_equal(uniform, uniform_of(words, "f8")), "RandomUniformLike")
    expect(numpy.abs(normal - normal_of(words, "f8")).max() < 1e-14, "RandomNormalLike")


def check_bernoulli(bench):
    p = numpy.linspace(0, 1, 5000, dtype="f4").reshape(50, 100)
    node = helper.make_node("Bernoulli", ["p"], ["y"], seed=STREAM, dtype=TensorProto.BOOL)
    ((got,),) = bench.outputs([node], [("y", TensorProto.BOOL)], [("p", TensorProto.FLOAT, p.shape)], {"p": p})
    u = uniform_of(words_of(p.shape, key_of(SEED, 0), bits_of(STREAM)), "f4")
    expect(numpy.array_equal(got, u < p), "Bernoulli")


def check_multinomial(bench):
    x = numpy.random.default_rng(2).standard_normal((4, 9)).astype("f4")
    node = helper.make_node("Multinomial", ["x"], ["y"], seed=STREAM, sample_size=5000, dtype=TensorProto.INT64)
    ((got,),) = bench.outputs([node], [("y", TensorProto.INT64)], [("x", TensorProto.FLOAT, x.shape)], {"x": x})
    weights = numpy.exp(x.astype("f8") - x.max(1, keepdims=True))
    edges = numpy.cumsum(weights, 1)
    at = uniform_of(words_of((4, 5000), key_of(SEED, 0), bits_of(STREAM)), "f4") * edges[:, -1:]
    wanted = (edges[:, None, :] <= at[:, :, None]).sum(2)
    clear = numpy.abs(edges[:, None, :] - at[:, :, None]).min(2) > 1e-5  # no rounding can decide
    expect(clear.mean() > 0.99 and numpy.array_equal(got[clear], wanted[clear]), "Multinomial")
    share = numpy.stack([(got == i).mean(1) for i in range(9)], 1)
    expect(numpy.abs(share - weights / edges[:, -1:]).max() < 0.03, "Multinomial: shares of the classes")


def check_dropout(bench):
    x = numpy.random.default_rng(3).standard_normal((40, 100)).astype("f4")
    inputs = [("x", TensorProto.FLOAT, x.shape), ("ratio", TensorProto.FLOAT, ()), ("on", TensorProto.BOOL, ())]
    node = helper.make_node("Dropout", ["x", "ratio", "on"], ["y", "mask"], seed=5)
    feeds = {"x": x, "ratio": numpy.array(0.3, "f4"), "on": numpy.array(True)}
    outputs = [("y", TensorProto.FLOAT), ("mask", TensorProto.BOOL)]
    ((got, mask),) = bench.outputs([node], outputs, inputs, feeds)
    wanted = uniform_of(words_of(x.shape, key_of(SEED, 0), 5), "f4") >= numpy.float32(0.3)
    expect(numpy.array_equal(mask, wanted), "Dropout: mask")
    scaled = numpy.where(wanted, x / (numpy.float32(1) - numpy.float32(0.3)), 0)
    expect(numpy.array_equal(got, scaled), "Dropout: data")
    ((got, mask),) = bench.outputs([node], outputs, inputs, {**feeds, "on": numpy.array(False)})
    expect(mask.all() and numpy.array_equal(got, x), "Dropout in inference")


def check_independence(bench):
    """Nodes, runs, bodies of functions and iterations have numbers of their own."""
    size = 4096
    one = lambda name: helper.make_node("RandomUniform", [], [name], shape=(size,))
    again = [helper.make_node("RandomUniform", [], [name], shape=(size,), seed=7.0) for name in ("c", "d")]
    port = helper.make_tensor_value_info
    body = helper.make_graph(
        [one("r"), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [port("i", TensorProto.INT64, ()), port("go", TensorProto.BOOL, ())],
        [port("on", TensorProto.BOOL, ()), port("r", TensorProto.FLOAT, None)],
    )
    trips = helper.make_node("Constant", [], ["trips"], value=helper.make_tensor("", TensorProto.INT64, (), [3]))
    loops = [helper.make_node("Loop", ["trips", ""], [name], body=body) for name in ("p", "q")]
    names = "a b c d p q".split()
    nodes = [one("a"), one("b"), *again, trips, *loops]
    runs = bench.outputs(nodes, [(name, TensorProto.FLOAT) for name in names], runs=2)
    named = [dict(zip(names, run)) for run in runs]
    expect(numpy.array_equal(named[0]["c"], named[0]["d"]), "nodes of one seed draw the same")
    lists = {}
    for run, values in enumerate(named):
        for name in "abc":
            lists[f"{name} of run {run}"] = values[name]
        for name in "pq":
            lists.update({f"{name}, trip {i}, of run {run}": row for i, row in enumerate(values[name])})
    found = list(lists.items())
    for i, (first, x) in enumerate(found):
        expect(abs(x.mean() - 0.5) < 5 / math.sqrt(12 * size), f"{first}: mean {x.mean()}")
        for second, y in found[:i]:
            correlation = numpy.corrcoef(x, y)[0, 1]
            expect(abs(correlation) < 5 / math.sqrt(size), f"{first} and {second}: correlation {correlation}")


def check_shapes_of_distributions(bench):
    """Kolmogorov and Smirnov: the largest distance from the distribution, of a million numbers."""
    size = 1 << 20
    nodes = [helper.make_node(op, [], [op], shape=(size,)) for op in ("RandomUniform", "RandomNormal")]
    ((uniform, normal),) = bench.outputs(nodes, [(node.op_type, TensorProto.FLOAT) for node in nodes])
    phi = numpy.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))
    ladder = numpy.arange(1, size + 1) / size
    for name, share in (("RandomUniform", numpy.sort(uniform)), ("RandomNormal", phi(numpy.sort(normal)))):
        distance = numpy.abs(share - ladder).max()
        expect(distance < 2.2 / math.sqrt(size), f"{name}: Kolmogorov-Smirnov distance {distance}")
    expect(4.4 < numpy.abs(normal).max() < 6.7, f"RandomNormal: the farthest is {numpy.abs(normal).max()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--diji", type=pathlib.Path, required=True)
    parser.add_argument("--devices", default="cpu,opencl:0", help="the first is the one to compare with")
    arguments = parser.parse_args()
    check_philox()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DIJI_CACHE_DIR", f"{folder}/cache")
        bench = Bench(arguments.diji.resolve().parents[1], pathlib.Path(folder), arguments.devices.split(","))
        checks = [check_uniform, check_normal, check_like, check_bernoulli, check_multinomial, check_dropout,
                  check_independence, check_shapes_of_distributions]  # fmt: skip
        for check in checks:
            check(bench)
    print(f"random numbers: {bench.count} models on {arguments.devices}, {len(PROBLEMS)} wrong")
    sys.exit(1 if PROBLEMS else 0)


if __name__ == "__main__":
    main()
