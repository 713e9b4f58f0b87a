"""What makers start from: `plugin new` writes a folder that builds, loads and passes its test as it is."""

import os
import subprocess

from case import OPTIONS, Case


class Skeletons(Case):
    def build(self, folder):
        """The skeleton's own build and test, with nothing of diji but the command."""
        run = self.run_program(f"./{folder}/build", DIJI=OPTIONS.diji)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run.stdout

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
        run = self.run_program("./broken_chip/build", DIJI=OPTIONS.diji)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("what came back is not what was sent", run.stderr)

    def test_files_are_the_owners_alone_to_write(self):
        command = f"umask 0 && {OPTIONS.diji} plugin new private_chip"
        subprocess.run(["sh", "-c", command], cwd=self.here, check=True, capture_output=True)
        for folder, _, files in os.walk(self.here / "private_chip"):
            for path in [folder, *(os.path.join(folder, file) for file in files)]:
                self.assertEqual(os.stat(path).st_mode & 0o022, 0, path)

    def test_refusals(self):
        for name in ["", "../up", "a/b", "9lives", "With_Capitals", "-x", "a" * 33, "a.b"]:
            with self.subTest(name=name):
                self.refused("plugin", "new", name, code=2, error="usage")
        self.refused("plugin", "old", "chip", code=2, error="usage", says=["new"])
        self.write("taken/file", b"mine")
        self.refused("plugin", "new", "taken", code=2, error="usage", says=["is there already"])
        self.assertEqual(sorted(os.listdir(self.here / "taken")), ["file"])
