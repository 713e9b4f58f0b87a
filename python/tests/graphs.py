"""Small models in the text form of a graph, and a folder for the files of a test."""

import os
import pathlib
import tempfile
import unittest

import diji

DTYPES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i8": "int8", "u8": "uint8",
    "i16": "int16", "u16": "uint16", "i32": "int32", "u32": "uint32", "i64": "int64", "u64": "uint64", "bool": "bool",
}  # fmt: skip

ADD = """graph "add" {
  symbol N in [0, 1000000]
  input %0 "a" : f32[N, 3]
  input %1 "b" : f32[N, 3]
  %2 = prim.add(%0, %1)
  output "sum" = %2
}
"""

MATMUL = """graph "matmul" {
  symbol N in [0, 1000000]
  input %0 "a" : f32[N, N]
  input %1 "b" : f32[N, N]
  %2 = matmul(%0, %1)
  output "product" = %2
}
"""


def same(dtype):
    """The model whose output is its input of rank 2."""
    sizes = "symbol N in [0, 1000000]\n  symbol M in [0, 1000000]\n"
    return f'graph "same" {{\n  {sizes}  input %0 "x" : {dtype}[N, M]\n  output "y" = %0\n}}\n'


class Case(unittest.TestCase):
    """Kernels are compiled anew: the cache is a folder of the test's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        os.environ["DIJI_CACHE_DIR"] = str(self.folder / "cache")

    def write(self, text, name="model.txt"):
        path = self.folder / name
        path.write_text(text)
        return path

    def load(self, text, **options):
        model = diji.load(self.write(text), **options)
        self.addCleanup(model.close)
        return model

    def error(self, kind, job, *arguments, **options):
        """The exception, which must be of exactly this class."""
        with self.assertRaises(diji.Error) as caught:
            job(*arguments, **options)
        self.assertIs(type(caught.exception), kind, caught.exception)
        self.assertEqual(str(caught.exception), caught.exception.message)
        return caught.exception
