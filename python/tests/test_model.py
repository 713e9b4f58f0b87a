"""Loading, running by name and in order, threads, forks, closing, and every kind of error with its fields."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import threading
import time
import unittest

import diji
import numpy
from graphs import ADD, MATMUL, Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODEL = os.environ.get("DIJI_TEST_MAGIKA")

GATHER = """graph "gather" {
  input %0 "x" : f32[4]
  input %1 "index" : i64[2]
  %2 = gather(%0, %1) {axis = 0}
  output "y" = %2
}
"""

DRAWS = """graph "draws" {
  input %key "diji.random_key" : u64[]
  %shape = constant i64[1] {4}
  %y = random_uniform(%shape, %key)
  output "y" = %y
}
"""


def ones(*shape):
    return numpy.ones(shape, numpy.float32)


class Loading(Case):
    def test_what_a_model_says(self):
        with self.load(ADD, device="cpu", threads=1) as model:
            self.assertEqual(model.inputs, (("a", "float32", ("N", 3)), ("b", "float32", ("N", 3))))
            self.assertEqual(model.outputs, (("sum", "float32", ("N", 3)),))
            self.assertEqual(model.outputs[0].name, "sum")
            self.assertEqual(model.coverage, "1 operators: 1 generated, 0 folded, 0 native, 0 on the host")
            self.assertEqual(model.device, "cpu:0")

    def test_devices(self):
        cpu = diji.devices()[0]
        self.assertEqual((cpu.name, cpu.plugin), ("cpu:0", "cpu"))
        self.assertGreater(cpu.memory_bytes, 0)

    def test_version(self):
        self.assertRegex(diji.__version__, r"^\d+\.\d+\.\d+$")
        self.assertRegex((ROOT / "CMakeLists.txt").read_text(), rf"VERSION {diji.__version__}\b")

    def test_files_that_are_none(self):
        error = self.error(diji.NotFoundError, diji.load, self.folder / "none.onnx")
        self.assertIsInstance(error, FileNotFoundError)
        self.assertEqual(error.file, str(self.folder / "none.onnx"))
        (self.folder / "cut.onnx").write_bytes(b"\x08\x07\x3a\xff\x01")
        error = self.error(diji.MalformedError, diji.load, str(self.folder / "cut.onnx"))
        self.assertEqual(error.file, str(self.folder / "cut.onnx"))
        self.assertGreaterEqual(error.offset, 0)
        self.assertIsNone(error.op)

    def test_options_that_do_not_fit(self):
        path = self.write(ADD)
        self.assertIn("cpu:0", self.error(diji.NoDeviceError, diji.load, path, device="none").message)
        self.error(diji.UsageError, diji.load, path, threads=-1)
        self.error(diji.UsageError, diji.load, path, dims={"N": 4})
        self.error(diji.InputError, diji.load, path, constants={"a": None})
        self.error(diji.NoDeviceError, diji.load, path, op_libraries=[self.folder / "none.so"])
        for wrong in ({"dims": {"N": "four"}}, {"dims": 3}, {"threads": "all"}, {"memory_limit_bytes": -1}):
            with self.assertRaises((TypeError, ValueError)):
                diji.load(path, **wrong)
        with self.assertRaises(TypeError):
            diji.load(None)

    def test_a_library_of_operators(self):
        library = self.folder / "libexample_op.so"
        command = [os.environ.get("CC", "clang-19"), "-shared", "-fPIC", "-I", ROOT / "include", "-o", library]
        subprocess.run([*command, ROOT / "tools/skeletons/example_op.c"], check=True)
        library.chmod(0o755)
        model = self.load((ROOT / "tools/skeletons/example_op_model.in").read_text(), op_libraries=[library])
        scale = numpy.array([2, 3], numpy.float32)
        output = model.run(ones(2, 3), scale)["y"]
        numpy.testing.assert_allclose(output, ones(2, 3) * scale[:, None] + 0.5)


class Running(Case):
    def test_by_name_and_in_order(self):
        model = self.load(ADD)
        a, b = ones(2, 3), 2 * ones(2, 3)
        for outputs in (model.run(a, b), model.run({"b": b, "a": a})):
            self.assertEqual(list(outputs), ["sum"])
            numpy.testing.assert_array_equal(outputs["sum"], a + b)

    def test_inputs_that_do_not_fit(self):
        model = self.load(ADD)
        for inputs in ((), (ones(2, 3),), (ones(2, 3),) * 3):
            self.assertIn("a, b", self.error(diji.InputError, model.run, *inputs).message)
        self.assertIn("'b'", self.error(diji.InputError, model.run, {"a": ones(2, 3)}).message)
        self.error(diji.InputError, model.run, {"a": ones(2, 3), "c": ones(2, 3)})
        self.error(diji.InputError, model.run, {"a": ones(2, 3), 1: ones(2, 3)})
        self.error(diji.InputError, model.run, ones(2, 3), ones(4, 3))
        self.error(diji.UsageError, model.run, ones(2, 3), ones(2, 3), output="list")
        numpy.testing.assert_array_equal(model.run(ones(2, 3), ones(2, 3))["sum"], 2 * ones(2, 3))

    def test_a_bad_index_names_the_operator(self):
        model = self.load(GATHER)
        x = numpy.arange(4, dtype=numpy.float32)
        numpy.testing.assert_array_equal(model.run(x, numpy.array([3, 1]))["y"], [3, 1])
        error = self.error(diji.DataError, model.run, x, numpy.array([3, 77]))
        self.assertIn("77", error.message)
        self.assertIn("gather", error.op)

    def test_seed(self):
        draw = lambda seed: [model.run()["y"].tolist() for model in [self.load(DRAWS, seed=seed)] for _ in range(2)]
        first, second = draw(7)
        self.assertEqual(self.load(DRAWS).inputs, ())
        self.assertNotEqual(first, second)
        self.assertEqual(draw(7), [first, second])
        self.assertNotEqual(draw(8)[0], first)

    def test_memory_limit(self):
        model = self.load(ADD, memory_limit_bytes=1 << 20)
        error = self.error(diji.OutOfMemoryError, model.run, ones(1 << 18, 3), ones(1 << 18, 3))
        self.assertIsInstance(error, MemoryError)
        self.assertGreater(error.bytes, 1 << 20)
        self.assertTrue(error.pool)
        numpy.testing.assert_array_equal(model.run(ones(2, 3), ones(2, 3))["sum"], 2 * ones(2, 3))

    def test_no_compiler_of_kernels(self):
        job = "import diji, sys\ntry: diji.load(sys.argv[1])\nexcept diji.DeviceError as e: print(e)"
        environment = os.environ | {"DIJI_LLVM_LIBRARY": "/nonexistent/libdiji_llvm.so", "DIJI_CACHE_DIR": "off"}
        command = [sys.executable, "-c", job, self.write(ADD)]
        run = subprocess.run(command, env=environment, capture_output=True, text=True)
        self.assertIn("libllvm19", run.stdout, run.stderr)

    def test_closing(self):
        model = self.load(ADD)
        self.assertIn("model.txt", repr(model))
        model.close()
        model.close()
        self.error(diji.UsageError, model.run, ones(2, 3), ones(2, 3))
        self.error(diji.UsageError, model.run, {})
        for read in (lambda: model.inputs, lambda: model.outputs, lambda: model.coverage, lambda: model.device):
            self.error(diji.UsageError, read)


class Threads(Case):
    def test_many_at_once(self):
        for threads in (1, 2):
            model = self.load(MATMUL, threads=threads)

            def job(seed, model=model):
                random = numpy.random.default_rng(seed)
                size = 20 + seed % 7
                a, b = (random.integers(-8, 8, (size, size)).astype(numpy.float32) for _ in range(2))
                return numpy.array_equal(model.run(a, b)["product"], a @ b)  # small integers: sums are exact

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertTrue(all(pool.map(job, range(200))))

    def test_others_go_on_during_a_run(self):
        model = self.load(MATMUL, threads=1)
        a = ones(1500, 1500)
        model.run(a, a)
        done = threading.Event()

        def job():
            model.run(a, a)
            done.set()

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-4)
        self.addCleanup(sys.setswitchinterval, interval)
        runner = threading.Thread(target=job)
        runner.start()
        turns = 0
        while not done.is_set():
            time.sleep(0.0005)
            turns += 1
        runner.join()
        self.assertGreater(turns, 3)  # one, where a run keeps the interpreter to itself

    def test_closing_waits_for_runs(self):
        model = self.load(MATMUL)
        a = ones(400, 400)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(model.run, a, a) for _ in range(4)]
            model.close()
            for run in runs:  # each ran before the model was closed, or is told so
                error = run.exception()
                if error is None:
                    self.assertEqual(run.result()["product"][0, 0], 400)
                else:
                    self.assertIs(type(error), diji.UsageError)

    def test_forks(self):
        path = self.write(MATMUL)
        model = diji.load(path, threads=2)
        a = ones(300, 300)
        model.run(a, a)
        child = os.fork()
        if child == 0:
            verdict = 1
            try:
                model.run(a, a)
            except diji.UsageError:
                verdict = 0 if diji.load(path, threads=2).run(a, a)["product"][0, 0] == 300 else 2
            finally:
                os._exit(verdict)
        deadline = time.monotonic() + 60
        while (status := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < deadline:
            time.sleep(0.01)
        if status == (0, 0):
            os.kill(child, 9)
            os.waitpid(child, 0)
            self.fail("the child hangs")
        self.assertEqual(os.waitstatus_to_exitcode(status[1]), 0)


@unittest.skipUnless(MODEL, "DIJI_TEST_MAGIKA does not name magika's model.onnx")
class Magika(Case):
    """The real model of the first run; its inputs here are the beginnings of files of this tree."""

    def setUp(self):
        super().setUp()
        files = sorted((ROOT / "base").glob("*.cpp"))[:8]
        rows = [file.read_bytes()[:2048].ljust(2048, b"\n") for file in files]
        self.x = numpy.frombuffer(b"".join(rows), numpy.uint8).reshape(-1, 2048).astype(numpy.int32)

    def test_sizes_and_constants(self):
        free = diji.load(MODEL)
        symbol, width = free.inputs[0].shape
        self.assertEqual((free.inputs[0].dtype, width), ("int32", 2048))
        scores = free.run(self.x)["target_label"]
        fixed = diji.load(MODEL, dims={symbol: len(self.x)})
        self.assertEqual(fixed.inputs[0].shape, (len(self.x), 2048))
        numpy.testing.assert_allclose(fixed.run(self.x)["target_label"], scores, atol=1e-6)
        self.error(diji.InputError, fixed.run, self.x[:1])
        constant = diji.load(MODEL, constants={"bytes": self.x})
        self.assertEqual(constant.inputs, ())
        numpy.testing.assert_allclose(constant.run()["target_label"], scores, atol=1e-6)
        self.error(diji.UsageError, diji.load, MODEL, dims={"nonesuch": 1})

    def test_onnxruntime_agrees(self):
        try:
            import onnxruntime
        except ImportError:
            self.skipTest("onnxruntime is not installed")
        session = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, {"bytes": self.x})
        scores = diji.load(MODEL).run({"bytes": self.x})["target_label"]
        self.assertGreater(expected.max(), 0.5)
        numpy.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5)


if __name__ == "__main__":
    unittest.main()
