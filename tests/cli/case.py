"""What the tests of the command share: a folder with a tiny model, the command run there, refusals."""

import argparse
import json
import os
import pathlib
import shlex
import subprocess
import tempfile
import unittest

import tiny_models

ERROR_KEYS = ["code", "message", "file", "offset", "op", "dtype", "shape", "bytes", "pool"]
ERROR_KEYS += ["rank", "host", "pid", "seq", "elapsed_s", "missing", "peer_args"]
VERBS = ["check", "devices", "run", "compile", "coverage", "verify", "cache", "bench", "topo", "launch"]
VERBS += ["ranks", "tune", "op", "plugin"]
OPTIONS = argparse.Namespace()  # of contract.py: diji, example, plugin


class Case(unittest.TestCase):
    """A folder with the tiny models in it, and the command run there."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="diji-cli-")
        cls.here = pathlib.Path(cls.temporary.name)
        cls.environment = {key: value for key, value in os.environ.items() if not key.startswith("DIJI_")}
        cls.environment["DIJI_CACHE_DIR"] = str(cls.here / "cache")
        cls.write("model.onnx", tiny_models.square())
        cls.write("x.npy", tiny_models.npy("f32", [2, 3], [1, 2, 3, 4, 5, 6]))

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def write(cls, name, data):
        path = cls.here / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def run_program(self, program, *words, **environment):
        command = [program, *map(str, words)]
        environment = self.environment | environment
        files = {"cwd": self.here, "stdin": subprocess.DEVNULL, "capture_output": True}
        return subprocess.run(command, env=environment, text=True, timeout=120, **files)

    def diji(self, *words, code=0, **environment):
        run = self.run_program(OPTIONS.diji, *words, **environment)
        command = f"diji {shlex.join(map(str, words))}"
        self.assertEqual(run.returncode, code, f"{command}\n{run.stdout}{run.stderr}")
        return run

    def document(self, *words, code=0, **environment):
        run = self.diji(*words, "--json", code=code, **environment)
        self.assertEqual(run.stdout.count("\n"), 1, "one document, one line")
        return json.loads(run.stdout)

    def refused(self, *words, code, error, says=(), **environment):
        """The text form and the JSON form of one refusal; returns the error object."""
        text = self.diji(*words, code=code, **environment)
        self.assertEqual(text.stdout, "")
        self.assertRegex(text.stderr, r"\Adiji: \S.*\n\Z", "one sentence")
        run = self.diji(*words, "--json", code=code, **environment)
        self.assertEqual(run.stderr, text.stderr)
        found = json.loads(run.stdout)
        self.assertEqual(list(found), ["error"])
        self.assertEqual(list(found["error"]), ERROR_KEYS)
        self.assertEqual(found["error"]["code"], error)
        self.assertIn(found["error"]["message"], text.stderr)
        for part in says:
            self.assertIn(part, text.stderr)
        return found["error"]
