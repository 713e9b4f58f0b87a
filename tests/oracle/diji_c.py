"""A model through diji.h: loaded once, run many times, without a process for each run."""

import ctypes

import numpy

DTYPES = "f8 f4 f2 - i1 u1 i2 u2 i4 u4 i8 u8 b1".split()  # diji_dtype, in its order


class TensorView(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("rank", ctypes.c_size_t), ("data", ctypes.c_void_p), ("data_bytes", ctypes.c_size_t),
    ]  # fmt: skip


class LoadOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32), ("device", ctypes.c_char_p), ("threads", ctypes.c_int32),
        ("memory_limit_bytes", ctypes.c_uint64), ("seed", ctypes.c_uint64),
    ]  # fmt: skip


class Model:
    def __init__(self, path, threads, build, device=None, seed=0):
        """`build` is a folder of a build, with lib/libdiji.so in it."""
        self.c = ctypes.CDLL(build / "lib/libdiji.so")
        self.c.diji_error_message.restype = ctypes.c_char_p
        self.c.diji_model_output_count.restype = ctypes.c_size_t
        self.c.diji_model_coverage.restype = ctypes.c_char_p
        self.model = ctypes.c_void_p()
        options = LoadOptions(ctypes.sizeof(LoadOptions), device.encode() if device else None, threads, 0, seed)
        self.check(self.c.diji_model_load(str(path).encode(), ctypes.byref(options), ctypes.byref(self.model)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.c.diji_error_message().decode())

    def coverage(self):
        return self.c.diji_model_coverage(self.model).decode()

    def prepare(self, feeds):
        """{name: array} as run() takes it; the arrays must live as long."""
        views = []
        for name, value in feeds.items():
            shape = (ctypes.c_int64 * value.ndim)(*value.shape)
            dtype = DTYPES.index(value.dtype.str[1:])
            views.append(TensorView(name.encode(), dtype, shape, value.ndim, value.ctypes.data, value.nbytes))
        return (TensorView * len(views))(*views)

    def run(self, inputs):
        """A result for finish() or forget()."""
        result = ctypes.c_void_p()
        self.check(self.c.diji_model_run(self.model, inputs, ctypes.c_size_t(len(inputs)), ctypes.byref(result)))
        return result

    def finish(self, result):
        """Copies of the outputs; the result is gone then."""
        outputs = []
        for i in range(self.c.diji_model_output_count(self.model)):
            view = TensorView()
            self.check(self.c.diji_result_output(result, ctypes.c_size_t(i), ctypes.byref(view)))
            data = ctypes.string_at(view.data, view.data_bytes)
            outputs.append(numpy.frombuffer(data, DTYPES[view.dtype]).reshape(view.shape[: view.rank]))
        self.forget(result)
        return outputs

    def forget(self, result):
        self.c.diji_result_free(result)

    def __call__(self, feeds):
        feeds = {name: numpy.asarray(value, order="C") for name, value in feeds.items()}
        return self.finish(self.run(self.prepare(feeds)))
