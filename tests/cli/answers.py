"""What the command prints when all is well, and when the answer is "no"."""

import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time
import unittest

import tiny_models
from case import OPTIONS, Case

RUN_KEYS = ["outputs", "latency_ms", "compiled_kernels", "peak_bytes", "planned", "coverage"]
COUNTS = ["native", "generated", "host", "folded"]
EXPECTED = [1, 5, 11, 16, 26, 38]  # x.npy through the model: x * x + [0, 1, 2]


class Documents(Case):
    """Exactly the promised keys, in the promised order."""

    def test_check(self):
        document = self.document("check", "--size", "64", "--world-size", "4")
        self.assertEqual(list(document), ["devices", "matmul", "all_reduce", "versions"])
        self.assertEqual(list(document["matmul"]), ["size", "gflops", "share_of_peak", "max_error", "ok"])
        self.assertEqual((document["matmul"]["size"], document["matmul"]["ok"]), (64, True))
        self.assertTrue(0 < document["matmul"]["share_of_peak"] <= 1, document["matmul"])
        all_reduce = document["all_reduce"]
        self.assertEqual(list(all_reduce), ["world_size", "busbw_gbps", "ok", "problem"])
        self.assertEqual((all_reduce["world_size"], all_reduce["ok"], all_reduce["problem"]), (4, True, None))
        self.assertGreater(all_reduce["busbw_gbps"], 0)
        self.assertEqual(list(document["versions"]), ["diji", "llvm", "plugin_abi", "compiler", "libc"])
        text = self.diji("check", "--size", "64").stdout
        self.assertRegex(text, r"(?m)^matmul +right on cpu:0: 64 x 64 f32 at [\d.]+ GFLOP/s")
        self.assertRegex(text, r"(?m)^all-reduce +right on 8 ranks: 4 MiB f32 at [\d.]+ GB/s")

    def test_devices(self):
        document = self.document("devices")
        self.assertEqual(list(document), ["devices", "absent", "problems"])
        # What an OpenCL driver offers depends on the machine.
        names = [device["name"] for device in document["devices"] if not device["name"].startswith("opencl:")]
        self.assertEqual(names, ["cpu:0"])
        keys = ["name", "model", "vendor", "memory_bytes", "features", "dialect", "driver_version"]
        keys += ["abi_version", "tier", "plugin", "plugin_version", "origin", "fingerprint"]
        keys += ["temperature_c", "clock_mhz", "utilisation"]
        self.assertEqual(list(document["devices"][0]), keys)
        self.assertIn("cpu:0  ", self.diji("devices").stdout)

    def test_a_plugin_on_trial(self):
        if not OPTIONS.plugin:
            raise unittest.SkipTest("no --plugin")
        plugin = ["--plugin", OPTIONS.plugin]
        names = [device["name"] for device in self.document("devices", *plugin)["devices"]]
        self.assertEqual([name for name in names if not name.startswith("opencl:")], ["cpu:0", "mock:0", "mock:1"])
        words = ["verify", *plugin, "--op", "sqrt", "--dtype", "f32"]  # tier 0: it refuses all
        document = self.document(*words, code=1)
        self.assertEqual([row["device"] for row in document["rows"]], ["mock:0", "mock:1"])
        self.assertEqual(document["unsupported"], document["cases"])
        self.diji(*words, "--device", "cpu")
        words = ["run", "model.onnx", "--input", "x=x.npy", "--device", "mock", *plugin]
        self.refused(*words, code=4, error="device")

    def test_refused_plugins_are_listed(self):
        self.write("plugins/libdiji_device_broken.so", b"this is no library")
        folder = str(self.here / "plugins")
        (problem,) = self.document("devices", DIJI_PLUGIN_PATH=folder)["problems"]
        self.assertIn("libdiji_device_broken.so", problem["message"])
        self.assertIn("refused  ", self.diji("devices", DIJI_PLUGIN_PATH=folder).stdout)

    def test_run(self):
        document = self.document("run", "model.onnx", "--input", "x=x.npy", "--output", "results")
        self.assertEqual(list(document), RUN_KEYS)
        self.assertEqual(list(document["latency_ms"]), ["first", "p50", "p90", "p99"])
        self.assertEqual(list(document["coverage"]), COUNTS)
        file = "results/y_out_0.npy"
        output = {"name": "y/out:0", "dtype": "f32", "shape": [2, 3], "file": file}
        self.assertEqual(document["outputs"], [output])
        self.assertEqual(tiny_models.read_npy((self.here / file).read_bytes()), ((2, 3), EXPECTED))

    def test_coverage(self):
        keys = ["model", *COUNTS, "time_ms", "fallback", "rows", "kernels"]
        document = self.document("coverage", "model.onnx")
        self.assertEqual(list(document), keys)
        self.assertEqual([document[key] for key in COUNTS], [0, 2, 0, 0])
        self.assertEqual(list(document["rows"][0]), ["op", "how", "count", "reason"])
        self.assertEqual([row["op"] for row in document["rows"]], ["add", "mul"])
        self.assertGreater(document["time_ms"]["generated"], 0)
        self.write("ratio.onnx", tiny_models.ratio("i32"))  # which refuses zeros: counts, and no times
        both = self.document("coverage", "model.onnx", "ratio.onnx", "--max-fallback", "0%")["models"]
        self.assertEqual([model["model"] for model in both], ["model.onnx", "ratio.onnx"])
        self.assertEqual(both[1]["time_ms"], {"native": None, "generated": None, "host": None})
        self.assertIn("no times", self.diji("coverage", "ratio.onnx").stdout)

    def test_verify(self):
        words = ["verify", "--op", "sqr*", "--dtype", "f32"]
        document = self.document(*words)
        self.assertEqual(list(document), ["cases", "failed", "rows", "unsupported"])
        keys = ["op", "dtype", "device", "cases", "worst_ulp", "failed", "worst_share", "unsupported", "unproved"]
        (row,) = document["rows"]
        self.assertEqual(list(row), [*keys, "problem", "bits"])
        self.assertRegex(row["bits"], "^[0-9a-f]{32}$")
        self.assertEqual(row["bits"], self.document(*words)["rows"][0]["bits"])
        self.assertEqual((row["op"], row["dtype"], row["device"], row["failed"]), ("sqrt", "f32", "cpu:0", 0))
        self.assertEqual(document["cases"], row["cases"])
        self.assertGreater(row["cases"], 0)
        self.assertIn(f"{row['cases']} cases, 0 failed", self.diji(*words).stdout)

    def test_pages(self):
        operators = self.diji("docs", "onnx-ops").stdout
        self.assertRegex(operators, r"\A([\w.]+ \d+\.\.\d+\n)+\Z")
        self.assertRegex(operators, r"(?m)^Add 1\.\.14$")
        for page in ("operators", "rules", "verbs"):
            self.assertRegex(self.diji("docs", page).stdout, r"\A# \w")
        self.assertNotIn("docs", self.diji("--help").stdout.split())


class Runs(Case):
    def output_of(self, *words, code=0, **environment):
        document = self.document("run", "model.onnx", "--output", "here", *words, code=code, **environment)
        return tiny_models.read_npy((self.here / document["outputs"][0]["file"]).read_bytes())

    def test_made_up_inputs(self):
        first = self.output_of("--input", "x=random", "--dim", "batch=4")
        self.assertEqual(first[0], (4, 3))
        self.assertEqual(first, self.output_of("--input", "x=random", "--dim", "batch=4", "--threads", "1"))
        self.assertNotEqual(first, self.output_of("--input", "x=random", "--dim", "batch=4", "--seed", "7"))
        self.assertEqual(self.output_of("--input", "x=zeros"), ((1, 3), [0, 1, 2]))
        self.assertEqual(self.output_of("--input", "x=zeros", "--dim", "batch=0"), ((0, 3), []))
        self.assertIn("(random, --seed 1)", self.diji("run", "model.onnx", "--input", "x=random").stdout)

    def test_bf16_is_written_as_pb(self):
        self.write("rounded.onnx", tiny_models.rounded())
        document = self.document("run", "rounded.onnx", "--input", "x=x.npy", "--output", "rounded")
        self.assertEqual(document["outputs"][0]["file"], "rounded/y.pb")
        one_to_six = [0x3F80, 0x4000, 0x4040, 0x4080, 0x40A0, 0x40C0]
        expected = tiny_models.tensor_pb("bf16", [2, 3], one_to_six, "y")
        self.assertEqual((self.here / "rounded/y.pb").read_bytes(), expected)
        self.diji("run", "rounded.onnx", "--input", "x=x.npy", "--expect", "rounded")

    def test_pb_in(self):
        self.write("x.pb", tiny_models.tensor_pb("f32", [2, 3], [1, 2, 3, 4, 5, 6]))
        self.assertEqual(self.output_of("--input", "x=x.pb"), ((2, 3), EXPECTED))

    def test_expect(self):
        words = ["run", "model.onnx", "--input", "x=x.npy", "--expect", "good"]
        self.write("good/y_out_0.npy", tiny_models.npy("f32", [2, 3], EXPECTED))
        document = self.document(*words)
        self.assertEqual(list(document), [*RUN_KEYS, "compared"])
        self.assertEqual(list(document["compared"][0]), ["name", "ok", "max_abs_error", "max_rel", "reason"])
        self.write("wrong/y_out_0.pb", tiny_models.tensor_pb("f32", [2, 3], [*EXPECTED[:4], 26.5, 38]))
        words[-1] = "wrong"
        run = self.diji(*words, code=1)
        sentence = "diji: output 'y/out:0' is not as expected: element 4: got 26, wanted 26.5\n"
        self.assertEqual(run.stderr, sentence)
        self.assertFalse(self.document(*words, code=1)["compared"][0]["ok"])
        self.diji(*words, "--rtol", "0.1")
        self.diji(*words, "--atol", "0.6")
        self.write("shape/y_out_0.npy", tiny_models.npy("f32", [6], EXPECTED))
        self.assertIn("[6]", self.diji(*words[:-1], "shape", code=1).stderr)
        self.refused(*words[:-1], "empty", code=3, error="not_found", says=["y_out_0.npy", "'y/out:0'"])

    def test_bisect(self):
        words = ["run", "model.onnx", "--input", "x=x.npy", "--bisect", "--expect"]
        self.write("bisect/y_out_0.npy", tiny_models.npy("f32", [2, 3], EXPECTED))
        self.assertNotIn("bisect", self.document(*words, "bisect"))
        self.write("astray/y_out_0.npy", tiny_models.npy("f32", [2, 3], [*EXPECTED[:5], 39]))
        document = self.document(*words, "astray", code=1)
        self.assertEqual(list(document), [*RUN_KEYS, "compared", "bisect"])
        found = document["bisect"]
        keys = ["blamed", "rule", "application", "operators", "rules", "problem", "trials", "sentence"]
        self.assertEqual(list(found), keys)
        # No compiler makes of this model what is expected here.
        self.assertEqual([found[key] for key in keys[:6]], ["model", None, None, [], [], None])
        self.assertIn("by definition the model does not give", self.diji(*words, "astray", code=1).stderr)

    def test_data(self):
        self.write("data/input_0.pb", tiny_models.tensor_pb("f32", [2, 3], [1, 2, 3, 4, 5, 6], "x"))
        self.write("data/output_0.pb", tiny_models.tensor_pb("f32", [2, 3], EXPECTED))
        self.assertEqual(self.output_of("--data", "data")[1], EXPECTED)
        self.write("data/output_0.pb", tiny_models.tensor_pb("f32", [2, 3], [*EXPECTED[:5], 39]))
        self.assertIn("element 5", self.diji("run", "model.onnx", "--data", "data", code=1).stderr)
        says = ["absent", "input_0.pb"]
        self.refused("run", "model.onnx", "--data", "absent", code=3, error="not_found", says=says)

    def test_interpreter(self):
        words = ["run", "model.onnx", "--input", "x=x.npy", "--interpreter"]
        self.write("right/y_out_0.npy", tiny_models.npy("f32", [2, 3], EXPECTED))
        document = self.document(*words, "exact", "--expect", "right")
        self.assertEqual(list(document), ["outputs", "latency_ms", "compared"])
        self.assertEqual(document["outputs"][0]["dtype"], "f32")
        text = self.diji(*words, "rounded", "--output", "definition").stdout
        self.assertIn("model.onnx on the interpreter\n", text)
        file = self.here / "definition" / "y_out_0.npy"
        self.assertEqual(tiny_models.read_npy(file.read_bytes()), ((2, 3), EXPECTED))

    def test_strict(self):
        self.write("ratio.onnx", tiny_models.ratio("f32"))
        words = ["run", "ratio.onnx", "--input", "numerator=zeros", "--input", "denominator=zeros"]
        self.diji(*words)
        document = self.document(*words, "--strict", code=1)
        self.assertEqual(list(document), [*RUN_KEYS, "not_finite"])
        self.assertRegex(document["not_finite"], r"output 'y': element 0 is -?nan; .*div")

    def test_repeat(self):
        words = ["run", "model.onnx", "--input", "x=x.npy", "--warmup", "2", "--repeat", "20"]
        latency = self.document(*words)["latency_ms"]
        self.assertTrue(0 < latency["p50"] <= latency["p90"] <= latency["p99"], latency)
        self.assertRegex(self.diji(*words).stdout, r"20 runs: p50 .*, p90 .*, p99 ")

    def test_options_of_the_compiler(self):
        words = ["run", "model.onnx", "--input", "x=x.npy"]
        self.assertEqual(self.output_of(*words[2:], "--disable-rule", "drop_identity")[1], EXPECTED)
        self.assertIn("tiny", self.diji(*words, "--dump-after", "decompose").stderr)
        verbose = self.diji(*words, "--verbose").stdout
        for line in ("coverage  2 operators: 2 generated, 0 folded", "kernels ", "memory ", "cache "):
            self.assertIn(f"\n{line}", verbose)


class CompileCache(Case):
    """A folder of its own for each test, since each begins cold."""

    RUN = ["run", "model.onnx", "--input", "x=x.npy", "--json"]

    def setUp(self):
        self.folder = self.here / self.id().rpartition(".")[2]
        self.environment = self.environment | {"DIJI_CACHE_DIR": str(self.folder)}

    def run_and_watch(self, *words):
        """(kernels compiled, whether the process mapped LLVM)"""
        log = self.here / "linker"
        run = self.diji(*self.RUN, *words, LD_DEBUG="files", LD_DEBUG_OUTPUT=str(log))
        (written,) = self.here.glob("linker.*")
        text = written.read_text(errors="replace")
        written.unlink()
        self.assertIn("libc.so.6", text)
        return json.loads(run.stdout)["compiled_kernels"], "libLLVM" in text

    def test_a_second_run_compiles_nothing_and_maps_no_llvm(self):
        compiled, llvm = self.run_and_watch()
        self.assertTrue(compiled > 0 and llvm)
        self.assertEqual(self.run_and_watch(), (0, False))
        self.assertEqual(self.run_and_watch("--no-cache"), (compiled, True))

    def test_weights_are_in_memory_once(self):
        """Read, copied because they lie askew, and written into the cache: the first start holds them once."""
        peaks = {}
        starts = "import os, sys; child = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])"
        starts += "; _, status, usage = os.wait4(child, 0); print(usage.ru_maxrss); sys.exit(status != 0)"
        for count in (1000, 4_000_000):
            self.write("weighted.onnx", tiny_models.weighted(count))
            # With a cache of its own: the same kernels would not be compiled twice.
            command = [sys.executable, "-c", starts, OPTIONS.diji, "compile", "weighted.onnx"]
            run = self.run_program(*command, DIJI_CACHE_DIR=str(self.here / f"cache-{count}"))
            self.assertEqual(run.returncode, 0, run.stderr)
            peaks[count] = int(run.stdout.splitlines()[-1]) * 1024
        self.assertLess(peaks[4_000_000] - peaks[1000], 1.5 * 4 * 4_000_000)

    def test_verbs(self):
        self.assertEqual(self.document("cache", "path"), {"path": str(self.folder)})
        self.assertEqual(self.document("cache", "ls"), {"entries": []})
        self.diji(*self.RUN)
        entries = self.document("cache")["entries"]
        self.assertEqual(list(entries[0]), ["key", "bytes", "kernel", "device"])
        self.assertEqual(self.document("cache", "verify"), {"entries": len(entries), "damaged": []})
        summary, *nothing = self.diji("cache", "ls").stdout.splitlines()
        self.assertRegex(summary, rf"^{len(entries)} entries, .* in .*; --all lists them$")
        self.assertEqual(nothing, [])
        self.assertEqual(len(self.diji("cache", "ls", "--all").stdout.splitlines()), 2 + len(entries))
        pruned = self.document("cache", "prune", "--max-bytes", "1")
        self.assertEqual(pruned, {"removed": len(entries), "entries": 0, "bytes": 0})
        self.assertEqual(self.document("cache", "path", DIJI_CACHE_DIR="off"), {"path": None})

    def damage(self, suffix):
        entry = next(self.folder.glob("*" + suffix))
        whole = entry.read_bytes()
        entry.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        self.assertEqual(len(self.document("cache", "verify", code=1)["damaged"]), 1)

    def test_a_damaged_entry_is_found_and_compiled_again(self):
        for suffix, compiled in ((".image", 0), (".kernel", 1)):
            self.diji(*self.RUN)
            self.damage(suffix)
            if suffix == ".kernel":  # which only a model that is compiled reads
                next(self.folder.glob("*.image")).unlink()
            run = self.diji(*self.RUN)
            self.assertEqual(json.loads(run.stdout)["compiled_kernels"], compiled)
            self.assertRegex(run.stderr, r"\Adiji: warning: .*\n\Z")
            self.assertEqual(self.document("cache", "verify")["damaged"], [])

    def start(self):
        command = [OPTIONS.diji, *self.RUN]
        return subprocess.Popen(
            command, cwd=self.here, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def test_processes_that_fill_one_folder_at_once(self):
        processes = [self.start() for _ in range(8)]
        answers = [process.communicate() for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * 8)
        self.assertEqual({error for _, error in answers}, {""})
        self.assertEqual(self.document("cache", "verify")["damaged"], [])
        self.assertEqual(json.loads(self.diji(*self.RUN).stdout)["compiled_kernels"], 0)

    def test_killed_at_any_point(self):
        begin = time.monotonic()
        self.start().communicate()
        whole = time.monotonic() - begin
        for i in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            process = self.start()
            time.sleep(whole * (i + 1) / 20)  # the moments differ from run to run; what must hold does not
            process.kill()
            process.communicate()
            self.assertEqual(self.document("cache", "verify")["damaged"], [])
            self.diji(*self.RUN)

    @unittest.skipUnless(os.geteuid() == 0, "only root mounts a disk that is full")
    def test_a_full_disk_is_one_warning(self):
        self.folder.mkdir(mode=0o700)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k,mode=700", "tmpfs", self.folder])
        if mounted.returncode:
            self.skipTest("no mounts here")
        try:
            run = self.diji(*self.RUN)
            self.assertRegex(run.stderr, r"\Adiji: warning: compile cache .*No space left on device.*\n\Z")
            self.assertEqual(list(self.folder.glob("*.part")), [])
            self.assertEqual(self.document("cache", "verify")["damaged"], [])
        finally:
            subprocess.run(["umount", self.folder], check=True)


class ModelFile(Case):
    def test_compile_and_run(self):
        document = self.document("compile", "model.onnx", "-o", "model.dji")
        self.assertEqual(list(document), ["compiled_kernels", "modules", "cached", "file", "bytes"])
        self.assertEqual(document["bytes"], (self.here / "model.dji").stat().st_size)
        self.assertIs(self.document("compile", "model.onnx")["cached"], True)
        words = ["--input", "x=x.npy", "--output"]
        self.diji("run", "model.onnx", *words, "first")
        self.diji("run", "model.dji", *words, "second")
        (first,) = (self.here / "first").iterdir()
        self.assertEqual(first.read_bytes(), (self.here / "second" / first.name).read_bytes())
        self.assertIn("model.dji", self.diji("compile", "model.onnx", "-o", "model.dji").stdout)

    def test_the_passes_run_once_for_the_cache_and_the_file(self):
        words = ["compile", "model.onnx", "-o", "once.dji", "--dump-after", "fuse"]
        dumped = self.diji(*words, DIJI_CACHE_DIR=str(self.here / "cache-once")).stderr
        self.assertEqual(dumped.count('graph "tiny"'), 1, dumped)
        sizes = self.diji("compile", "model.onnx", "-o", "sized.dji", "--dim", "batch=2").stdout
        self.assertIn("they are in the file alone", sizes)
        environment = {"DIJI_CACHE_DIR": str(self.here / "cache-of-a-file")}
        self.assertIs(self.document("compile", "model.onnx", "-o", "model.dji", **environment)["cached"], False)
        self.assertIs(self.document("compile", "model.onnx", **environment)["cached"], True)
        self.assertIs(self.document("compile", "model.onnx", "-o", "model.dji", **environment)["cached"], True)

    def test_refusals(self):
        self.refused("compile", "model.onnx", "-o", "model.bin", code=2, error="usage", says=["model.bin", ".dji"])
        self.refused("compile", "model.onnx", "--dim", "n=2", code=2, error="usage", says=["-o"])
        self.refused("compile", "absent.onnx", code=3, error="not_found", says=["absent.onnx"])
        self.write("broken.dji", b"DIJIIMG1" + bytes(40))
        self.refused("run", "broken.dji", code=3, error="malformed", says=["broken.dji"])


class OnnxCases(Case):
    def test_lines(self):
        for name, data, last in (
            ("cases/good", tiny_models.square(), 38),
            ("cases/wrong", tiny_models.square(), 39),
            ("cases/strange", tiny_models.strange(), 38),
        ):
            self.write(f"{name}/model.onnx", data)
            x = tiny_models.tensor_pb("f32", [2, 3], [1, 2, 3, 4, 5, 6], "x")
            self.write(f"{name}/test_data_set_0/input_0.pb", x)
            y = tiny_models.tensor_pb("f32", [2, 3], [*EXPECTED[:5], last], "y/out:0")
            self.write(f"{name}/test_data_set_0/output_0.pb", y)
        run = self.diji("verify", "--onnx-cases", "cases", "--json", code=1)
        lines = [json.loads(line) for line in run.stdout.splitlines()]
        keys = ["case", "ok", "max_abs_error", "max_rel", "reason"]
        self.assertEqual([list(line) for line in lines], [keys] * 3)
        self.assertEqual([(line["case"], line["ok"]) for line in lines],
                         [("good", True), ("strange", False), ("wrong", False)])  # fmt: skip
        self.assertIn("Frobnicate", lines[1]["reason"])
        self.assertIn("element 5: got 38, wanted 39", lines[2]["reason"])
        self.assertEqual(self.diji("verify", "--onnx-cases", "cases", code=1).stdout.count("\n"), 4)
        words = ["verify", "--onnx-cases", "cases", "--interpreter", "exact"]
        interpreted = [json.loads(line) for line in self.diji(*words, "--json", code=1).stdout.splitlines()]
        self.assertEqual([line["ok"] for line in interpreted], [True, False, False])
        self.refused("verify", "--onnx-cases", "absent", code=3, error="not_found", says=["absent"])


class Example(Case):
    """name_file_type on a model that answers with two of its tokens, which shows what it fed."""

    def example(self, *words, code=0):
        if not OPTIONS.example:
            raise unittest.SkipTest("no --example")
        run = self.run_program(OPTIONS.example, *words)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def labels_of(self, first_token, data):
        """The larger token's label and its value."""
        self.write("model/model.onnx", tiny_models.two_columns(first_token))
        self.write("model/labels.txt", b"left\nright\n")
        line = self.example("model", self.write("file", data)).stdout.splitlines()[0]
        return re.fullmatch(r"\S+ +(\w+) +([\d.]+)", line).groups()

    def test_tokens(self):
        blanks = b" \t\n\v\f\r"
        for token, data, wanted in (
            (0, b"ab" * 10, ("right", "98.000")),
            (0, blanks + b"zab" * 10, ("left", "122.000")),
            (0, blanks * 600 + b"xyxyxyxyxyxyxy" + b"z" * 9000, ("right", "121.000")),
            (1022, b"a" * 5000, ("left", "97.000")),
            (1022, b"a" * 1023, ("right", "256.000")),
            (1024, b"a" * 5000, ("left", "97.000")),
            (1024, b"a" * 1023, ("left", "256.000")),
            (2046, b"a" * 5000 + b"cb" + blanks * 20, ("left", "99.000")),
            (2046, b"\xff" * 4096 + b"\0\xfe", ("right", "254.000")),
        ):
            with self.subTest(token=token, data=data[:20]):
                self.assertEqual(self.labels_of(token, data), wanted)

    def test_a_batch_with_files_that_are_too_short(self):
        self.labels_of(0, b"abababab")
        files = {"short": b"1234567", "blank": b" " * 99, "empty": b""}
        paths = [self.write(name, data) for name, data in files.items()]
        lines = self.example("model", *paths[:1], "file", *paths[1:], "file").stdout.splitlines()
        self.assertEqual(["too short to say" in line for line in lines[:5]], [True, False, True, True, False])
        self.assertEqual(lines[1], lines[4])
        self.assertRegex(lines[5], r"\Aload [\d.]+ ms, run [\d.]+ ms for 2 files\Z")
        self.assertIn("2 operators", lines[6])
        self.assertIn("for 0 files", self.example("model", *paths).stdout)

    def test_errors(self):
        self.example(code=2)
        self.assertIn("absent", self.example("absent", "x.npy", code=3).stderr)
        self.labels_of(0, b"abababab")
        self.assertIn("absent", self.example("model", "absent", code=3).stderr)
        self.assertIn(".", self.example("model", ".", code=3).stderr)
        self.write("model/labels.txt", b"left\nright\nthird\n")
        self.assertIn("labels.txt", self.example("model", "file", code=3).stderr)
        self.write("model/model.onnx", b"nothing")
        self.assertIn("model.onnx", self.example("model", "file", code=3).stderr)
