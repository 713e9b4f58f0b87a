"""A job of some launcher that a test starts, watches and hurts; and what must hold whichever launcher it is."""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))
from jobs import running  # noqa: E402

OPTIONS = argparse.Namespace()  # of run.py: diji
RANK_VARIABLES = ("DIJI_RANK", "RANK", "PMI_RANK", "PMIX_RANK")  # in the order of collective/launchers.cpp
CHECKED = ["bench", "collective", "all_reduce", "--sizes", "8:64K", "--seconds", "0.01", "--check", "--json"]
LOOP = ["bench", "collective", "all_reduce", "--bytes", "4K", "--iters", "100000000"]  # until somebody ends it
START_S = 30
END_S = 20  # deaths are noticed within a second, cut cables after four; then the launcher cleans up


def needs(*programs):
    """What is not installed is no reason to test less."""
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise FileNotFoundError(f"{', '.join(missing)}: not installed (scripts/setup-debian PACKAGE...)")


def environment_of(pid):
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        return dict(word.split("=", 1) for word in words if "=" in word)
    return {}


class Job:
    """Processes that a test starts together, with their output in files; all that they start has a mark."""

    def __init__(self, test, commands, **environment):
        self.test = test
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=test.here))
        self.marker = f"DIJI_TEST_JOB={self.folder}"
        settings = test.environment | environment | {"DIJI_TEST_JOB": str(self.folder)}
        self.processes = []
        test.addCleanup(self.clean)
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            files = {"cwd": self.folder, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            for command in commands:
                self.processes.append(subprocess.Popen(list(map(str, command)), env=settings, **files))

    def clean(self):
        for pid in running(self.marker):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.kill()
            process.wait()

    def said(self):
        return (self.folder / "out").read_text() + (self.folder / "err").read_text()

    def ranks(self, world):
        """{rank: pid} once all of them are in their calls."""
        deadline = time.monotonic() + START_S + self.test.patience_s
        calling = set()
        while time.monotonic() < deadline and any(one.poll() is None for one in self.processes):
            found = {}
            for pid in running(self.marker):
                with contextlib.suppress(OSError):
                    if os.path.samefile(f"/proc/{pid}/exe", OPTIONS.diji):
                        variables = environment_of(pid)
                        found |= {int(variables[name]): pid for name in RANK_VARIABLES[::-1] if name in variables}
            calling |= {pid for pid in set(found.values()) - calling if self.calls(pid)}
            if len(found) == world and calling >= set(found.values()):
                return found
            time.sleep(0.05)
        self.test.fail(f"{world} ranks did not come to call: {self.said()}")

    def calls(self, pid):
        listed = subprocess.run([OPTIONS.diji, "ranks", str(pid), "--json"], capture_output=True, text=True)
        if listed.returncode != 0:
            return False
        ranks = json.loads(listed.stdout)["communicators"][0]["ranks"]
        return any(rank["pid"] == pid and rank["calls"] for rank in ranks)

    def sequence(self, pid):
        """The number of the rank's last call."""
        listed = subprocess.run([OPTIONS.diji, "ranks", str(pid), "--json"], capture_output=True, text=True, check=True)
        ranks = json.loads(listed.stdout)["communicators"][0]["ranks"]
        return next(rank["calls"][-1]["seq"] for rank in ranks if rank["pid"] == pid)

    def end(self, seconds=END_S):
        """The exit codes; nothing of the job is left."""
        deadline = time.monotonic() + seconds + self.test.patience_s
        codes = []
        for process in self.processes:
            try:
                codes.append(process.wait(timeout=max(0, deadline - time.monotonic())))
            except subprocess.TimeoutExpired:
                self.test.fail(f"it does not end within {seconds} s: {self.said()}")
        while (left := running(self.marker)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.test.assertEqual(left, [], self.said())
        return codes

    def document(self):
        """Of rank 0, the only line of the output."""
        self.test.assertEqual(set(self.end(60)), {0}, self.said())
        return json.loads((self.folder / "out").read_text())


class Launched(unittest.TestCase):
    """A folder, and jobs in it. What a launcher is: `commands(world, words)` and the facts below."""

    launcher = ""  # its name in the table
    world = 3
    hosts = 1
    transport = "shm"
    deaths = (1, 0)
    patience_s = 0  # more than others need
    survivors_speak = True  # False: the launcher kills them first
    names_who_is_missing = True

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="diji-cluster-")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.here = pathlib.Path(cls.temporary.name)
        cls.environment = {name: value for name, value in os.environ.items() if not name.startswith("DIJI_")}

    def commands(self, world, words):
        """One or more, which start `world` ranks of a program."""
        raise NotImplementedError

    def diji(self, words):
        return ["sh", "-c", f"exec {shlex.join([OPTIONS.diji, *words])}"]

    def start(self, world, words, **environment):
        return Job(self, self.commands(world, words), **environment)

    def right(self):
        document = self.start(self.world, self.diji(CHECKED)).document()
        machine = document["machine"]
        self.assertEqual((machine["ranks"], machine["launcher"]), (self.world, self.launcher))
        self.assertEqual((machine["hosts"], machine["transport"]), (self.hosts, self.transport))
        self.assertEqual(len(document["rows"]), 14)
        self.assertEqual({(row["wrong"], row["transport"]) for row in document["rows"]}, {(0, self.transport)})


class AnyLauncher:
    """The tests of each."""

    def test_it_starts_and_the_results_are_right(self):
        self.right()

    def test_a_rank_is_killed_and_the_job_starts_again(self):
        for dead in self.deaths:
            with self.subTest(dead=dead):
                job = self.start(self.world, self.diji(LOOP))
                pids = job.ranks(self.world)
                os.kill(pids[dead], signal.SIGKILL)
                codes = job.end()
                self.assertTrue(any(codes), f"{codes}: {job.said()}")
                for rank in set(range(self.world)) - {dead} if self.survivors_speak else ():
                    named = rf"(?m)^rank {rank}: \w+ #\d+: rank {dead} on \S+ \(pid {pids[dead]}\)"
                    self.assertRegex(job.said(), named)
        self.right()

    def test_a_rank_never_arrives(self):
        for missing in (2, 0):
            with self.subTest(missing=missing):
                rank = "${DIJI_RANK:-${RANK:-${PMI_RANK:-$PMIX_RANK}}}"
                text = f'[ "{rank}" = {missing} ] && exec sleep 2; exec {OPTIONS.diji} bench collective barrier'
                job = self.start(3, ["sh", "-c", text], DIJI_TIMEOUT="1")
                self.assertTrue(any(job.end()), job.said())
                said = f"rank {missing} never arrived|rank {missing} at .* did not answer"
                self.assertRegex(job.said(), said if self.names_who_is_missing else "not all ranks came to")
