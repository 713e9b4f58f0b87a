"""What makers start from: `plugin new` and `op new` write folders that build, load and pass their tests as they are."""

import itertools
import os
import shutil
import subprocess

import tiny_models
from case import OPTIONS, Case


def compilers():
    """The system's, which is what a maker has; where there is none, those that diji itself is built with."""
    names = {"CC": ("cc", "clang-19"), "CXX": ("c++", "clang++-19")}
    return {key: other for key, (usual, other) in names.items() if key not in os.environ and not shutil.which(usual)}


class Maker(Case):
    def build(self, folder):
        """The skeleton's own build and test, with nothing of diji but the command."""
        run = self.run_program(f"./{folder}/build", DIJI=OPTIONS.diji, **compilers())
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout


class Skeletons(Maker):
    def test_plugin_builds_and_passes(self):
        self.assertEqual(self.document("plugin", "new", "my_chip"), {"folder": "my_chip"})
        out = self.build("my_chip")
        self.assertIn("my_chip:0 passed\nmy_chip:1 passed\n", out)
        self.assertRegex(out, r"plugin +my_chip 1 \(\./libdiji_device_my_chip\.so\), ABI [\d.]+, tier 0")
        source = (self.here / "my_chip/my_chip.cpp").read_text()
        self.assertNotIn("mock", source)
        self.assertNotIn("DIJI_PLUGIN_SHARED", source)

    def test_plugin_test_can_fail(self):
        self.diji("plugin", "new", "broken_chip")
        source = self.here / "broken_chip/broken_chip.cpp"
        text = source.read_text()
        copy = "std::copy_n(at(src), bytes, to)"
        self.assertIn(copy, text)
        source.write_text(text.replace(copy, "std::copy_n(at(src), bytes - 1, to)"))
        run = self.run_program("./broken_chip/build", DIJI=OPTIONS.diji, **compilers())
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("what came back is not what was sent", run.stderr)

    def test_files_are_the_owners_alone_to_write(self):
        command = f"umask 0 && {OPTIONS.diji} plugin new private_chip"
        subprocess.run(["sh", "-c", command], cwd=self.here, check=True, capture_output=True)
        for folder, _, files in os.walk(self.here / "private_chip"):
            for path in [folder, *(os.path.join(folder, file) for file in files)]:
                self.assertEqual(os.stat(path).st_mode & 0o022, 0, path)

    def test_refusals(self):
        names = ["", "../up", "a/b", "9lives", "With_Capitals", "-x", "a" * 33, "a.b"]
        for verb, name in itertools.product(["plugin", "op"], names):
            with self.subTest(verb=verb, name=name):
                self.refused(verb, "new", name, code=2, error="usage")
        for name in ("cpu", "opencl", "cuda"):
            self.refused("plugin", "new", name, code=2, error="usage", says=[f"'{name}'", "diji brings"])
        self.refused("plugin", "old", "chip", code=2, error="usage", says=["new"])
        self.write("taken/file", b"mine")
        self.refused("plugin", "new", "taken", code=2, error="usage", says=["is there already"])
        self.assertEqual(sorted(os.listdir(self.here / "taken")), ["file"])


class CustomOperators(Maker):
    """The operator of `op new` in ONNX models: y[i, j] = x[i, j] * scale[i]."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.library = ["--op-library", "scale_rows/libscale_rows.so"]
        cls.write("own.onnx", tiny_models.custom("scale_rows"))
        cls.write("rows.npy", tiny_models.npy("f32", [3, 2], [1, 2, 3, 4, 5, 6]))
        cls.write("scale.npy", tiny_models.npy("f32", [3], [1, -1, 2]))

    def setUp(self):
        if not (self.here / "scale_rows").exists():
            self.diji("op", "new", "scale_rows")
            out = self.build("scale_rows")
            self.assertIn("contiguous passed\nstrided passed\n", out)
            self.assertIn("32 cases, 0 failed, 0 refused", out)

    def test_run(self):
        inputs = ["--input", "x=rows.npy", "--input", "scale=scale.npy"]
        document = self.document("run", "own.onnx", *self.library, *inputs, "--output", "results")
        self.assertEqual(document["coverage"], {"native": 0, "generated": 1, "host": 1, "folded": 0})
        result = tiny_models.read_npy((self.here / "results/y.npy").read_bytes())
        self.assertEqual(result, ((3, 2), [1, 4, -9, -16, 50, 72]))

    def test_coverage(self):
        document = self.document("coverage", "own.onnx", *self.library)
        (row,) = [row for row in document["rows"] if row["how"] == "host"]
        self.assertEqual((row["op"], row["count"]), ("example.scale_rows", 1))
        self.assertIn("libscale_rows.so", row["reason"])
        self.assertEqual(document["fallback"], 0.5)
        self.assertGreater(document["time_ms"]["host"], 0)
        self.diji("coverage", "own.onnx", *self.library, "--max-fallback", "10%", code=1)

    def test_verify(self):
        document = self.document("verify", *self.library)
        self.assertEqual([row["op"] for row in document["rows"]], ["example.scale_rows", "example.scale_rowsGradient"])
        self.assertEqual((document["cases"], document["failed"], document["unsupported"]), (32, 0, 0))

    def test_verify_names_the_operator_that_ends_the_process(self):
        source = (self.here / "scale_rows/scale_rows.c").read_text()
        headers = "#define _DEFAULT_SOURCE\n#include <stdlib.h>\n#include <unistd.h>\n"
        compiler = compilers().get("CC", "cc")
        both = "example.scale_rows f32 or its gradient example.scale_rowsGradient: "
        ends = "the library ended the process"
        for function, does, options, code, error, says in (
            ("run", "abort();", (), 4, "device", f"{both}{ends}: signal 6 (Aborted)"),
            ("run", "_exit(0);", (), 4, "device", f"{both}{ends} with exit code 0"),
            ("run_gradient", "abort();", ("--op", "*Gradient"), 4, "device", f"scale_rowsGradient f32: {ends}"),
            ("run", "for (;;) pause();", ("--timeout", "3"), 5, "deadline", f"{both}no answer within 3 s"),
        ):
            with self.subTest(function=function, does=does):
                begin = f"static int32_t {function}(const diji_op_call* call) {{\n"
                self.assertIn(begin, source)
                self.write("scale_rows/ends.c", (headers + source.replace(begin, f"{begin}  {does}\n")).encode())
                flags = "-std=c99 -fPIC -shared -Iscale_rows scale_rows/ends.c -o ends.so"
                built = self.run_program("sh", "-c", f"umask 022 && {compiler} {flags}")
                self.assertEqual(built.returncode, 0, built.stderr)
                self.refused("verify", "--op-library", "ends.so", *options, code=code, error=error, says=[says])
        self.refused("verify", *self.library, "--onnx-cases", ".", code=2, error="usage", says=["--op-library"])

    def test_without_the_library_the_operator_is_named(self):
        self.refused("run", "own.onnx", code=3, error="unsupported", says=["example.scale_rows"])

    def test_a_model_that_does_not_fit_the_declaration(self):
        self.write("ints.onnx", tiny_models.custom("scale_rows", "i32"))
        says = ["input 'x' is declared as strided f32 of rank 2, the call has contiguous i32[rows, 2]"]
        self.refused("run", "ints.onnx", *self.library, code=3, error="mismatch", says=says)

    def test_refused_libraries(self):
        def refused(path, says):
            self.refused("run", "own.onnx", "--op-library", path, code=4, error="no_device", says=[path, says])

        refused("nothing.so", "No such file")
        self.write("broken.so", b"this is no library")
        refused("broken.so", "too short")
        writable = self.write("writable.so", (self.here / "scale_rows/libscale_rows.so").read_bytes())
        os.chmod(writable, 0o666)
        refused("writable.so", "may be written by others")
        if OPTIONS.plugin:
            refused(OPTIONS.plugin, "it exports no diji_op_library_entry()")
        twice = [*self.library, *self.library]
        says = ["there is an operator example.scale_rows already"]
        self.refused("verify", *twice, code=4, error="no_device", says=says)
