"""What a user, a file or the environment can get wrong: each has its exit code and a sentence that helps."""

import json
import pathlib
import re
import shlex
import subprocess

import tiny_models
from case import OPTIONS, VERBS, Case


class Usage(Case):
    def test_no_verb(self):
        run = self.diji(code=2)
        self.assertEqual(run.stdout, "")
        self.assertIn("Usage: diji VERB", run.stderr)

    def test_version(self):
        self.assertRegex(self.diji("--version").stdout, r"^diji \d+\.\d+\.\d+\n$")

    def test_unknown_names_get_the_nearest(self):
        model = ["run", "model.onnx"]
        for words, nearest in (
            (["chekc"], "'check'"),
            ([*model, "--inptu", "x=zeros"], "'--input'"),
            ([*model, "--inptu=x=zeros"], "'--input'"),
            ([*model, "--input", "x=randm"], "'random'"),
            ([*model, "--input", "x=zeros", "--log-level", "inof"], "'info'"),
            ([*model, "--input", "x=zeros", "--dim", "bacth=2"], "'batch'"),
            ([*model, "--input", "x=zeros", "--disable-rule", "drop_identiy"], "'drop_identity'"),
            ([*model, "--input", "x=zeros", "--dump-after", "fold_constnts"], "'fold_constants'"),
            (["cache", "prnue"], "'prune'"),
            (["verify", "--op", "sqtr"], "'sqrt'"),
            (["verify", "--dtype", "f322"], "'f32'"),
        ):
            with self.subTest(words):
                self.refused(*words, code=2, error="usage", says=[f"did you mean {nearest}"])

    def test_wrong_values(self):
        model = ["run", "model.onnx", "--input", "x=zeros"]
        for words, part in (
            ([*model, "--threads", "0"], "--threads: '0' is no integer from 1"),
            ([*model, "--repeat", "few"], "--repeat: 'few'"),
            ([*model, "--rtol", "-1"], "--rtol: '-1'"),
            ([*model, "--memory-limit", "5Q"], "--memory-limit: '5Q'"),
            ([*model, "--memory-limit", "99999999999G"], "--memory-limit: '99999999999G'"),
            ([*model, "--dim", "batch"], "--dim: 'batch' is not NAME=N"),
            ([*model, "--output"], "--output DIR: a value is missing"),
            ([*model, "--output", "--verbose"], "--output DIR: a value is missing"),
            ([*model, "--seed", "1", "--seed", "2"], "--seed is given 2 times"),
            ([*model, "--input", "x=zeros"], "'x' is given twice"),
            ([*model, "other.onnx"], "'other.onnx' is one word too many"),
            ([*model, "--interpreter", "exact", "--strict"], "--strict is about compiled kernels"),
            ([*model, "--interpreter", "fast"], "--interpreter: 'fast' is not one of exact, rounded"),
            (["run", "x.dji", "--bisect", "--data", "x"], "give the model that x.dji was made from"),
            ([*model, "--bisect"], "--bisect needs to know what is right"),
            ([*model, "--bisect", "--expect", "x", "--interpreter", "exact"], "--bisect is about compiled kernels"),
            (["verify", "--interpreter", "exact"], "--interpreter goes with --onnx-cases"),
            ([*model, "--strict=no"], "'--strict=no': --strict takes no value"),
            (["run"], "diji run needs MODEL"),
            (["check", "--size", "0"], "--size: '0'"),
            (["coverage", "model.onnx", "--max-fallback", "150%"], "--max-fallback: '150%'"),
            (["cache", "ls", "--max-bytes", "1M"], "--max-bytes"),
            (["cache", "path", "--all"], "--all is an option of diji cache ls"),
        ):
            with self.subTest(words):
                self.refused(*words, code=2, error="usage", says=[part])

    def test_what_is_not_built_is_refused(self):
        for words in (["--precision", "bf16"],):
            words = ["run", "model.onnx", "--input", "x=zeros", *words]
            self.refused(*words, code=2, error="usage", says=[words[-2]])

    def test_help_of_every_verb_has_an_example_that_works(self):
        self.write("checked.txt", b"")
        listed = re.findall(r"^  (\w+)  ", self.diji("--help").stdout, re.M)
        self.assertEqual(listed, VERBS)
        for verb in VERBS:
            with self.subTest(verb):
                text = self.diji(verb, "--help").stdout
                words = ["nonsense"] if verb != "launch" else []  # from its first operand on words are the command's
                self.assertEqual(text, self.diji(verb, *words, "--help").stdout)
                for option in ("--device NAME", "--threads N", "--json", "--log-level LEVEL", "--help"):
                    self.assertIn(f"  {option}  ", text)
                (example,) = re.findall(r"^Example:\n  diji (.*)$", text, re.M)
                path = f"{pathlib.Path(OPTIONS.diji).parent}:{self.environment['PATH']}"  # launch finds diji there
                # There is no job to look at: collective.py has one.
                self.diji(*shlex.split(example), code=3 if verb == "ranks" else 0, PATH=path)


class BadFiles(Case):
    def refused_file(self, name, error, says=()):
        found = self.refused("run", name, "--input", "x=zeros", code=3, error=error, says=[name, *says])
        self.assertEqual(found["file"], name)
        return found

    def test_missing(self):
        self.refused_file("absent.onnx", "not_found")

    def test_a_folder(self):
        (self.here / "folder.onnx").mkdir()
        self.refused_file("folder.onnx", "io", says=["directory"])

    def test_cut_off_anywhere(self):
        whole = tiny_models.square()
        offsets = set()
        for length in range(0, len(whole), 7):
            self.write("cut.onnx", whole[:length])
            run = self.run_program(OPTIONS.diji, "run", "cut.onnx", "--input", "x=zeros", "--json")
            self.assertEqual(run.returncode, 3, f"{length} bytes: {run.stdout}{run.stderr}")
            found = json.loads(run.stdout)["error"]
            self.assertEqual((found["code"], found["file"]), ("malformed", "cut.onnx"), found)
            self.assertIn(found["offset"], range(length + 1), found)
            offsets.add(found["offset"])
        self.assertGreater(len(offsets), 2, "the places differ")

    def test_absurd(self):
        no_length = tiny_models.message((1, 8)) + b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
        for name, data in (("text.onnx", b"this is no model at all\n"), ("huge.onnx", no_length),
                           ("ones.onnx", b"\xff" * 100)):  # fmt: skip
            with self.subTest(name):
                self.write(name, data)
                self.assertIsInstance(self.refused_file(name, "malformed", says=["byte"])["offset"], int)

    def test_files_that_are_no_models(self):
        kinds = {"text": b"# README\n\nWords.\n", "zip": b"PK\x03\x04....", "HDF5": b"\x89HDF\r\n\x1a\n"}
        for kind, data in kinds.items():
            with self.subTest(kind=kind):
                self.write("other.onnx", data)
                self.refused_file("other.onnx", "malformed", says=["not an ONNX file", kind, "onnx.save"])

    def test_unknown_operators_all_at_once(self):
        self.write("strange.onnx", tiny_models.strange())
        found = self.refused_file("strange.onnx", "unsupported", says=["Frobnicate", "Tahn", "Tan"])
        self.assertEqual(found["op"].split(", "), ["Frobnicate", "Tahn"])

    def test_graph_text(self):
        self.write("bad.txt", b"this is no graph\n")
        self.refused_file("bad.txt", "malformed")

    def test_tensor_files(self):
        whole = tiny_models.npy("f32", [2, 3], range(6))
        words = ["run", "model.onnx", "--input"]
        for name, data, error in (
            ("cut.npy", whole[:-1], "malformed"),
            ("short.npy", whole[:20], "malformed"),
            ("none.pb", b"\xff\xff", "malformed"),
            ("fortran.npy", whole.replace(b"False", b"True "), "unsupported"),
        ):
            with self.subTest(name):
                self.write(name, data)
                found = self.refused(*words, f"x={name}", code=3, error=error, says=[name])
                self.assertEqual(found["file"], name)
        self.refused(*words, "x=absent.npy", code=3, error="not_found", says=["absent.npy"])


class BadInputs(Case):
    def refused_input(self, *inputs, model="model.onnx", error="mismatch", says=()):
        words = [word for one in inputs for word in ("--input", one)]
        return self.refused("run", model, *words, code=3, error=error, says=says)

    def test_names(self):
        self.refused_input(says=["'x'", "missing", "f32[batch, 3]"])
        self.write("ratio.onnx", tiny_models.ratio("f32"))
        for kind in ("zeros", "x.npy"):
            says = ["did you mean 'numerator'", "denominator"]
            self.refused_input(f"numeratr={kind}", model="ratio.onnx", says=says)

    def test_dtype_rank_and_size(self):
        for name, tensor, says in (
            ("dtype.npy", ("i32", [2, 3], range(6)), ["'x'", "i32", "f32"]),
            ("rank.npy", ("f32", [3], range(3)), ["'x'", "rank 1", "2", "[batch, 3]"]),
            ("size.npy", ("f32", [2, 4], range(8)), ["'x'", "axis 1 is 4", "must be 3"]),
        ):
            with self.subTest(name):
                self.write(name, tiny_models.npy(*tensor))
                found = self.refused_input(f"x={name}", says=says)
                self.assertEqual((found["dtype"], found["shape"]).count(None), 1)

    def test_sizes_that_contradict(self):
        self.write("ratio.onnx", tiny_models.ratio("f32"))
        self.write("two.npy", tiny_models.npy("f32", [2], range(2)))
        self.write("three.npy", tiny_models.npy("f32", [3], range(3)))
        inputs = ["numerator=two.npy", "denominator=three.npy"]
        self.refused_input(*inputs, model="ratio.onnx", says=["'denominator'", "axis 0", "2", "'numerator'"])
        words = ["run", "ratio.onnx", "--input", "numerator=two.npy", "--input", "denominator=zeros"]
        self.refused(*words, "--dim", "n=5", code=2, error="usage", says=["n=5", "2"])

    def test_a_divisor_of_zero(self):
        self.write("integers.onnx", tiny_models.ratio("i32"))
        inputs = ["numerator=zeros", "denominator=zeros"]
        found = self.refused_input(*inputs, model="integers.onnx", error="data", says=["zero"])
        self.assertIn("div", found["op"])


class Environment(Case):
    RUN = ["run", "model.onnx", "--input", "x=x.npy"]

    def runs_with_one_warning(self, *words, says, code=0, **environment):
        run = self.diji(*self.RUN, *words, "--json", code=code, **environment)
        self.assertRegex(run.stderr, r"\Adiji: warning: .*\n\Z", "one warning")
        self.assertIn(says, run.stderr)
        return json.loads(run.stdout)

    def test_output_folder_that_cannot_be_written(self):
        for folder in ("/proc/nope/results", "x.npy/results"):
            document = self.runs_with_one_warning("--output", folder, says=folder, code=3)
            self.assertEqual([output["file"] for output in document["outputs"]], [None])
            self.assertIn("= 1 5 11 16", self.diji(*self.RUN, "--output", folder, code=3).stdout)

    def test_cache_folder_that_cannot_be_written(self):
        for folder in ("/proc/nope", str(self.here / "x.npy" / "cache")):
            document = self.runs_with_one_warning(DIJI_CACHE_DIR=folder, says=folder)
            self.assertGreater(document["compiled_kernels"], 0)

    def test_unknown_device(self):
        for words, environment in (
            ([*self.RUN, "--device", "cqu"], {}),
            (self.RUN, {"DIJI_DEVICE": "cqu"}),
            (["check", "--device", "cqu"], {}),
            (["verify", "--device", "cqu"], {}),
        ):
            says = ["'cqu'", "cpu:0", "did you mean cpu"]
            self.refused(*words, code=4, error="no_device", says=says, **environment)

    def test_plugin_that_is_none(self):
        self.refused("devices", "--plugin", "absent.so", code=4, error="no_device", says=["absent.so"])

    def test_memory_limit(self):
        words = ["run", "model.onnx", "--input", "x=zeros", "--dim", "batch=100000"]
        found = self.refused(*words, "--memory-limit", "64K", code=4, error="out_of_memory", says=["65536"])
        self.assertGreater(found["bytes"], 100000 * 3 * 4)
        self.assertIn("model.onnx", found["pool"])
        self.diji(*words, "--memory-limit", "16M")

    def test_a_full_disk_behind_stdout_is_no_success(self):
        with open("/dev/full", "w") as full:
            options = {"cwd": self.here, "env": self.environment, "stdout": full, "stderr": subprocess.PIPE}
            run = subprocess.run([OPTIONS.diji, *self.RUN], **options)
        self.assertEqual(run.returncode, 3, run.stderr)
        self.assertIn(b"stdout", run.stderr)
