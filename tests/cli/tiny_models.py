"""Tiny ONNX models, TensorProto and .npy files out of nothing but the standard library, for contract.py."""

import ast
import struct

DTYPES = {  # ONNX type, struct, npy
    "f32": (1, "f", "<f4"),
    "i8": (3, "b", "|i1"),
    "i32": (6, "i", "<i4"),
    "i64": (7, "q", "<i8"),
    "bf16": (16, "H", None),
}


# ---- protocol buffers: a message is a list of (field number, int | float | str | bytes) ----


def varint(number):
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def message(*fields):
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            data = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(data)) + data
    return out


def tensor_pb(dtype, shape, values, name=""):
    onnx_type, code, _ = DTYPES[dtype]
    raw = struct.pack(f"<{len(values)}{code}", *values)
    return message(*[(1, size) for size in shape], (2, onnx_type), (8, name), (9, raw))


def value_info(name, dtype, shape):
    dims = [(1, message((1, size) if isinstance(size, int) else (2, size))) for size in shape]
    tensor_type = message((1, DTYPES[dtype][0]), (2, message(*dims)))
    return message((1, name), (2, message((1, tensor_type))))


def node(op_type, inputs, outputs, domain="", **attributes):
    """Integer attributes only."""
    fields = [(1, name) for name in inputs] + [(2, name) for name in outputs]
    fields += [(3, f"{op_type}_node"), (4, op_type), (7, domain)]
    fields += [(5, message((1, key), (3, value), (20, 2))) for key, value in attributes.items()]
    return message(*fields)


def model(nodes, inputs, outputs, constants=(), domain=None):
    """`inputs` and `outputs` are (name, dtype, shape) with names for symbolic sizes; `domain` beside ONNX's own."""
    graph = message(
        *[(1, n) for n in nodes], (2, "tiny"), *[(5, tensor_pb(*rest, name)) for name, *rest in constants],
        *[(11, value_info(*i)) for i in inputs], *[(12, value_info(*o)) for o in outputs],
    )  # fmt: skip
    opsets = [("", 17)] + ([(domain, 1)] if domain else [])
    return message((1, 8), (2, "tiny_models"), (7, graph), *[(8, message((1, d), (2, v))) for d, v in opsets])


# ---- the models ----


def square():
    """y = x * x + bias; x is f32[batch, 3]."""
    nodes = [node("Mul", ["x", "x"], ["xx"]), node("Add", ["xx", "bias"], ["y/out:0"])]
    bias = ("bias", "f32", [3], [0.0, 1.0, 2.0])
    return model(nodes, [("x", "f32", ["batch", 3])], [("y/out:0", "f32", ["batch", 3])], [bias])


def weighted(count):
    """y = x * w of `count` elements, w where no float can be read in place, beside z = k * b, where b can be."""
    values = [i % 251 - 125.0 for i in range(count)]
    ports = [("x", "f32", [count]), ("k", "i8", [8])], [("y", "f32", [count]), ("z", "i8", [8])]
    for w in ("w", "ww"):  # whose length moves what is behind it
        constants = [(w, "f32", [count], values), ("b", "i8", [8], range(8))]
        data = model([node("Mul", ["x", w], ["y"]), node("Mul", ["k", "b"], ["z"])], *ports, constants)
        if data.index(struct.pack("<2f", *values[:2])) % 4:
            return data


def ratio(dtype):
    """y = a / b of one size."""
    ports = [(name, dtype, ["n"]) for name in ("numerator", "denominator")]
    return model([node("Div", ["numerator", "denominator"], ["y"])], ports, [("y", dtype, ["n"])])


def rounded():
    """y is x f32[2, 3] as bf16, which .npy cannot hold."""
    return model([node("Cast", ["x"], ["y"], to=16)], [("x", "f32", [2, 3])], [("y", "bf16", [2, 3])])


def custom(op, dtype="f32"):
    """y = op(x * x, scale) of the domain `example`; x is [rows, 2]."""
    nodes = [node("Mul", ["x", "x"], ["xx"]), node(op, ["xx", "scale"], ["y"], domain="example")]
    ports = [("x", dtype, ["rows", 2]), ("scale", dtype, ["rows"])]
    return model(nodes, ports, [("y", dtype, ["rows", 2])], domain="example")


def strange():
    """Three nodes of two operators that nobody knows, and one that is known."""
    nodes = [node("Frobnicate", ["x"], ["a"]), node("Tahn", ["a"], ["b"]), node("Tahn", ["b"], ["c"])]
    return model([*nodes, node("Tanh", ["c"], ["y"])], [("x", "f32", [2])], [("y", "f32", [2])])


def two_columns(first):
    """The shape of magika: scores f32[n, 2] are the tokens `first` and `first` + 1 of bytes i32[n, 2048]."""
    nodes = [node("Slice", ["bytes", "first", "end", "axis"], ["tokens"])]
    nodes += [node("Cast", ["tokens"], ["scores"], to=1)]
    constants = [("first", "i64", [1], [first]), ("end", "i64", [1], [first + 2]), ("axis", "i64", [1], [1])]
    return model(nodes, [("bytes", "i32", ["n", 2048])], [("scores", "f32", ["n", 2])], constants)


# ---- .npy ----


def npy(dtype, shape, values):
    _, code, name = DTYPES[dtype]
    header = repr({"descr": name, "fortran_order": False, "shape": tuple(shape)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = struct.pack(f"<{len(values)}{code}", *values)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def read_npy(data):
    """(shape, values)"""
    (length,) = struct.unpack_from("<H", data, 8)
    header = ast.literal_eval(data[10 : 10 + length].decode())
    code = {name: code for _, code, name in DTYPES.values()}[header["descr"]]
    body = data[10 + length :]
    return header["shape"], list(struct.unpack(f"<{len(body) // struct.calcsize(code)}{code}", body))
