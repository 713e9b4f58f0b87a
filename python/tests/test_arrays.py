"""What goes in and comes out: every dtype, every layout, NumPy, the buffer protocol, DLPack, PyTorch."""

import array
import gc
import importlib.util
import sys
import unittest

import diji
import numpy
from graphs import ADD, DTYPES, Case, same


def needs(package):
    found = importlib.util.find_spec(package) is not None
    return unittest.skipUnless(found, f"{package} is not installed")


class Layouts(Case):
    def setUp(self):
        super().setUp()
        self.x = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        self.model = self.load(same("f32"))

    def check(self, value, expected):
        numpy.testing.assert_array_equal(self.model.run(value)["y"], expected)

    def test_strides(self):
        for view in (self.x.T, self.x[::-1, ::2], self.x[:, 1:2], numpy.asfortranarray(self.x),
                     numpy.broadcast_to(self.x[0], (5, 4)), self.x[:0], self.x[:, :0]):  # fmt: skip
            self.check(view, view.copy())

    def test_read_only(self):
        self.x.flags.writeable = False
        self.check(self.x, self.x)
        self.check(self.x.T, self.x.T)

    def test_unaligned(self):
        memory = numpy.zeros(self.x.nbytes + 1, numpy.uint8)
        unaligned = memory[1:].view(numpy.float32).reshape(self.x.shape)
        unaligned[:] = self.x
        self.assertNotEqual(unaligned.ctypes.data % 4, 0)
        self.check(unaligned, self.x)

    def test_buffers(self):
        flat = memoryview(array.array("f", range(12)))
        self.check(flat.cast("B").cast("f", (3, 4)), self.x)

    def test_the_array_is_only_borrowed(self):
        count = sys.getrefcount(self.x)
        for value in (self.x, self.x.T):
            self.model.run(value)
        self.assertEqual(sys.getrefcount(self.x), count)

    def test_outputs_outlive_the_model(self):
        output = self.model.run(self.x)["y"]
        self.model.close()
        gc.collect()
        numpy.testing.assert_array_equal(output, self.x)
        output += 1  # it is the caller's own
        self.assertFalse(output.flags.owndata)  # no copy: NumPy borrows what diji made
        self.assertFalse(numpy.shares_memory(output, self.x))


class Dtypes(Case):
    def test_every_dtype(self):
        for name, dtype in DTYPES.items():
            if name == "bf16":
                continue
            with self.subTest(dtype):
                x = numpy.array([[0, 1, 100], [2, 3, 4]]).astype(dtype)
                model = self.load(same(name))
                self.assertEqual(model.inputs, (("x", dtype, ("N", "M")),))
                for output in (model.run(x)["y"], numpy.from_dlpack(model.run(x, output="dlpack")["y"])):
                    self.assertEqual(output.dtype, x.dtype)
                    numpy.testing.assert_array_equal(output, x)

    @needs("ml_dtypes")
    def test_bfloat16_of_ml_dtypes(self):
        import ml_dtypes

        x = numpy.array([[1.5, -2, 3], [4, 5, 6]]).astype(ml_dtypes.bfloat16)
        model = self.load(same("bf16"))
        self.assertEqual(model.outputs[0].dtype, "bfloat16")
        for view in (x, x.T):
            output = model.run(view)["y"]
            self.assertEqual(output.dtype, ml_dtypes.bfloat16)
            numpy.testing.assert_array_equal(output, view)
        for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.int4):
            error = self.error(diji.InputError, model.run, x.astype(dtype))
            self.assertEqual(error.dtype, numpy.dtype(dtype).name)

    def test_what_is_no_array_of_the_model(self):
        model = self.load(same("f32"))
        x = numpy.ones((2, 2), numpy.float32)
        not_arrays = (None, 3, 1.5, "text", [[1.0]], {"x"}, object(), numpy.array([["a"]]), x.astype(object),
                      x.astype(">f4"), x.astype([("a", "f4")]), x.astype("M8[s]"))  # fmt: skip
        for value in not_arrays:
            error = self.error(diji.InputError, model.run, value)
            self.assertIn("input 'x': ", error.message)
            self.assertEqual(error.code, "mismatch")
        self.assertEqual(self.error(diji.InputError, model.run, x.astype(object)).dtype, "object")
        self.assertEqual(self.error(diji.InputError, model.run, x.astype(complex)).dtype, "complex128")
        self.assertEqual(self.error(diji.InputError, model.run, x.astype("f8")).dtype, "float64")
        self.assertEqual(self.error(diji.InputError, model.run, x[0]).shape, "[2]")
        numpy.testing.assert_array_equal(model.run(x)["y"], x)  # it still runs


class Exchange(Case):
    def test_numpy_takes_dlpack(self):
        model = self.load(ADD)
        a, b = numpy.ones((4, 3), numpy.float32), numpy.full((4, 3), 2, numpy.float32)
        total = model.run({"b": b, "a": a}, output="dlpack")["sum"]
        self.assertEqual(total.__dlpack_device__(), (1, 0))
        first, second = numpy.from_dlpack(total), numpy.from_dlpack(total)
        self.assertTrue(numpy.shares_memory(first, second))
        again = model.run(total, b)["sum"]  # an output is an input as it is
        del total, second
        gc.collect()
        numpy.testing.assert_array_equal(first, a + b)
        numpy.testing.assert_array_equal(again, a + b + b)

    @needs("torch")
    def test_torch(self):
        import torch

        model = self.load(same("f32"))
        x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        for tensor in (x, x.T, x[:, ::2]):
            output = torch.from_dlpack(model.run(tensor, output="dlpack")["y"])
            self.assertTrue(torch.equal(output, tensor))
            numpy.testing.assert_array_equal(model.run(tensor)["y"], tensor.numpy())
        watched = x.clone().requires_grad_()  # only read; autograd does not see it
        self.assertTrue(torch.equal(torch.from_dlpack(model.run(watched, output="dlpack")["y"]), x))
        self.error(diji.InputError, model.run, torch.empty((2, 3), device="meta"))
        self.error(diji.InputError, model.run, x.to(torch.complex64))

    @needs("torch")
    def test_bfloat16_of_torch(self):
        import torch

        model = self.load(same("bf16"))
        x = torch.tensor([[1.5, -2.0], [3.0, 4.0]], dtype=torch.bfloat16)
        output = torch.from_dlpack(model.run(x, output="dlpack")["y"])
        self.assertEqual(output.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(output, x))


if __name__ == "__main__":
    unittest.main()
