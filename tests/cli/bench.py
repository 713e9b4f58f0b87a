"""diji bench: what it prints, what it refuses, and that a saved file decides. No time decides a test."""

import json

import tiny_models
from case import Case

ROW_KEYS = ["name", "value", "unit", "share_of_limit", "peers", "spread"]
MACHINE_KEYS = ["cpu", "device", "threads", "memory_bytes", "features", "system", "diji", "peak_gflops", "copy_gbps"]
GEMM = ["bench", "gemm", "--size", "32,16,8", "--rounds", "2", "--threads", "1"]
PRETENDS = """#!/bin/sh
echo '{"version": "1.2"}'
while read -r runs; do echo '{"seconds": [0.25, 0.5, 0.75]}'; done
"""


class Bench(Case):
    def saved(self, name, **changes):
        """A file of --save with other numbers in its row."""
        self.diji(*GEMM, "--save", name)
        document = json.loads((self.here / name).read_text())
        for key, change in changes.items():
            document["rows"][0][key] = change(document["rows"][0][key])
        self.write(name, json.dumps(document).encode())
        return name

    def script(self, text):
        path = self.write("python-that-pretends", text.encode())
        path.chmod(0o755)
        return path

    def test_gemm(self):
        document = self.document(*GEMM, "--size", "8,8,8")
        self.assertEqual(list(document), ["machine", "rows"])
        self.assertEqual(list(document["machine"]), MACHINE_KEYS)
        self.assertEqual([row["name"] for row in document["rows"]], ["gemm f32 32x16x8", "gemm f32 8x8x8"])
        for row in document["rows"]:
            self.assertEqual(list(row), ROW_KEYS)
            self.assertEqual((row["unit"], row["peers"]), ("GFLOP/s", {}))
            self.assertGreater(row["value"], 0)
            self.assertGreater(row["share_of_limit"], 0)
        # The peak is that of f32.
        self.assertIsNone(self.document(*GEMM, "--dtype", "f64")["rows"][0]["share_of_limit"])

    def test_model(self):
        document = self.document("bench", "model", "model.onnx", "--dim", "batch=4", "--rounds", "2")
        (row,) = document["rows"]
        self.assertEqual((row["name"], row["unit"]), ("model.onnx batch=4", "ms"))
        self.write("ratio.onnx", tiny_models.ratio("f32"))
        rows = self.document("bench", "model", "model.onnx", "ratio.onnx", "--rounds", "1")["rows"]
        self.assertEqual([row["name"] for row in rows], ["model.onnx", "ratio.onnx"])

    def test_op(self):
        rows = self.document("bench", "op", "--op", "s[iq][nr]*", "--rounds", "1")["rows"]
        names = [row["name"] for row in rows]
        self.assertIn("sqrt f32[1024, 1024]", names)
        self.assertEqual({row["unit"] for row in rows}, {"us"})
        # Which wants more than large operands: its largest sample.
        (row,) = self.document("bench", "op", "--op", "conv", "--rounds", "1")["rows"]
        self.assertRegex(row["name"], r"^conv f32\[")

    def test_formats(self):
        self.assertEqual(self.diji(*GEMM, "--format", "json").stdout.count("\n"), 1)
        table, csv, md = (self.diji(*GEMM, "--format", name).stdout.splitlines() for name in ("table", "csv", "md"))
        self.assertRegex(table[1], r"^gemm f32 32x16x8 +[\d.e+-]+ +GFLOP/s ")
        self.assertEqual(csv[0].count(","), csv[1].count(","))
        self.assertTrue(csv[1].startswith('"gemm f32 32x16x8",'))
        self.assertRegex(md[2], r"^\| gemm f32 32x16x8 \| [\d.e+-]+ \| GFLOP/s \| ")

    def test_a_peer_that_is_there(self):
        words = [*GEMM, "--against", "peers", "--python", self.script(PRETENDS)]
        peers = self.document(*words)["rows"][0]["peers"]
        self.assertEqual(list(peers), ["numpy", "torch"])
        self.assertEqual(list(peers["numpy"]), ["version", "value", "times_as_fast", "low", "high"])
        self.assertEqual(peers["numpy"]["version"], "1.2")
        self.assertAlmostEqual(peers["numpy"]["value"], 2 * 32 * 16 * 8 / 0.5 / 1e9)  # the median of its seconds
        self.assertGreater(peers["numpy"]["low"], 1)
        self.assertRegex(self.diji(*words).stdout, r"x numpy \(")

    def test_peers_of_an_operator(self):
        """The peer is told which operator, and finds diji's operands and a model of one node in the files."""
        looks = "#!/bin/sh\nshift 2; echo \"$@\" >>told; cp $3 node.onnx 2>/dev/null\n" + PRETENDS.partition("\n")[2]
        words = ["bench", "op", "--rounds", "1", "--against", "peers", "--python", self.script(looks), "--op"]
        (row,) = self.document(*words, "sub")["rows"]
        self.assertEqual(list(row["peers"]), ["onnxruntime", "numpy", "torch"])
        self.assertAlmostEqual(row["peers"]["numpy"]["value"], 5e5)  # us
        told = (self.here / "told").read_text().splitlines()
        files = r"input_0=\S+/input_0\.npy input_1=\S+/input_1\.npy"
        self.assertRegex(told[0], rf"^onnxruntime \d+ \S+/node\.onnx {files}$")
        for engine, line in zip(("numpy", "torch"), told[1:], strict=True):
            self.assertRegex(line, rf"^{engine} \d+ op sub {files}$")
        # The model is the operator: diji reads it back.
        run = self.document("run", "node.onnx", "--input", "input_0=random", "--input", "input_1=random")
        self.assertEqual([output["shape"] for output in run["outputs"]], [[1024, 1024]])
        # With attributes it is a model for ONNX Runtime, and the others have no word for it.
        (row,) = self.document(*words, "conv")["rows"]
        self.assertEqual(list(row["peers"]), ["onnxruntime"])

    def test_a_peer_that_is_not_there_is_named(self):
        for text, why in (
            (None, "No such file"),
            ("echo '{\"absent\": \"no such module\"}'", "no such module"),
            ("exit 3", "its process has ended"),
            ("echo hello", "no JSON"),
            (PRETENDS.replace("[0.25, 0.5, 0.75]}", "[]}"), "answered in some rounds only"),
        ):
            with self.subTest(why):
                python = self.script(f"#!/bin/sh\n{text}\n") if text else self.here / "absent"
                run = self.diji(*GEMM, "--against", "peers", "--python", python, "--json")
                peers = json.loads(run.stdout)["rows"][0]["peers"]
                self.assertEqual([list(peer) for peer in peers.values()], [["absent"], ["absent"]])
                self.assertIn(why, peers["torch"]["absent"])
                self.assertIn("torch is absent", run.stderr)

    def test_against_a_file(self):
        slower = self.saved("slower.json", value=lambda v: v / 1000, share_of_limit=lambda v: v / 1000)
        self.diji(*GEMM, "--against", slower)
        faster = self.saved("faster.json", value=lambda v: v * 1000, share_of_limit=lambda v: v * 1000)
        self.assertIn("% worse, noise is", self.diji(*GEMM, "--against", faster, code=1).stderr)
        self.diji(*GEMM, "--against", slower, "--against", faster, code=1)
        # A thousand times as fast, of a machine that is a thousand times as fast.
        machine = self.saved("machine.json", value=lambda v: v * 1000, share_of_limit=lambda v: v / 1000)
        self.diji(*GEMM, "--against", machine)
        # Within the spread that the file has.
        noisy = self.saved("noisy.json", value=lambda v: v * 1000, share_of_limit=lambda v: None, spread=lambda v: 1e5)
        self.diji(*GEMM, "--against", noisy)
        sized = ["bench", "gemm", "--size", "8,8,8", "--rounds", "1"]
        self.refused(*sized, "--against", slower, code=3, error="mismatch", says=["none of its rows"])
        document = json.loads((self.here / slower).read_text())
        document["machine"]["cpu"] = "another"
        self.write("other.json", json.dumps(document).encode())
        self.assertIn("another machine", self.diji(*GEMM, "--against", "other.json").stderr)

    def test_milliseconds_count_downwards(self):
        words = ["bench", "model", "model.onnx", "--rounds", "1"]
        self.diji(*words, "--save", "ms.json")
        document = json.loads((self.here / "ms.json").read_text())
        for factor, code in ((1e-3, 1), (1e3, 0)):
            row = document["rows"][0] | {"share_of_limit": None}
            changed = document | {"rows": [row | {"value": row["value"] * factor, "spread": 0}]}
            self.write("changed.json", json.dumps(changed).encode())
            self.diji(*words, "--against", "changed.json", code=code)

    def test_bad_files(self):
        for text in ("", "[]", '{"rows": 3}', '{"rows": [{"name": "x"}]}', '{"rows": [{"name": 1, "value": 1}]}'):
            self.write("bad.json", text.encode())
            with self.subTest(text):
                self.refused(*GEMM, "--against", "bad.json", code=3, error="malformed", says=["bad.json"])
        self.refused(*GEMM, "--against", "nowhere.json", code=3, error="not_found", says=["nowhere.json"])

    def test_usage(self):
        for words, part in (
            (["bench"], "diji bench needs model MODEL...|gemm|op"),
            (["bench", "gem"], "did you mean 'gemm'"),
            (["bench", "model"], "needs MODEL..."),
            (["bench", "gemm", "model.onnx"], "'model.onnx' is one word too many"),
            (["bench", "gemm", "--size", "1,2"], "'1,2' is not M,N,K"),
            (["bench", "gemm", "--size", "1,2,3,4"], "'1,2,3,4' is not M,N,K"),
            (["bench", "gemm", "--op", "add"], "--op does not go with bench gemm"),
            (["bench", "op", "--op", "sqtr"], "did you mean 'sqrt'"),
        ):
            with self.subTest(words):
                self.refused(*words, code=2, error="usage", says=[part])
        self.assertIn("two answers", self.diji(*GEMM, "--json", "--format", "csv", code=2).stderr)
