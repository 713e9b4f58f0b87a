"""A job of `diji launch` that a test watches and hurts: its ranks, its words, and that nothing of it is left."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import case

DEATH_S = 5  # five times the bound; the grace of 10 s, after which launch kills who is left, must not be needed


def state_of(pid):
    """The letter of /proc/PID/stat; nothing where there is no such process."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def running(marker):
    """Processes whose environment has the marker: a job's ranks and whatever they started."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if marker.encode() in (folder / "environ").read_bytes() and state_of(folder.name) not in (None, "Z"):
                found.append(int(folder.name))
    return found


class Job:
    """A launcher with its output in files: a pipe would stay open in whatever outlives it."""

    def __init__(self, test, ranks, command, *options, **environment):
        self.test = test
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=test.here))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.marker = f"DIJI_TEST_JOB={self.folder}"
        environment = test.environment | environment
        environment |= {"TMPDIR": str(self.temporary), "DIJI_TEST_JOB": str(self.folder)}
        words = [case.OPTIONS.diji, "launch", "-n", str(ranks), *options, *map(str, command)]
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            files = {"cwd": test.here, "stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            self.process = subprocess.Popen(words, env=environment, **files)
        test.addCleanup(self.clean)

    def clean(self):
        for pid in running(self.marker):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()

    def out(self):
        return (self.folder / "out").read_text()

    def err(self):
        return (self.folder / "err").read_text()

    def until(self, what, seconds=20):
        deadline = time.monotonic() + seconds
        while not (found := what()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.test.fail(f"{what} did not come to be: {self.out()}{self.err()}")
            time.sleep(0.01)
        return found

    def pids(self, ranks):
        """By rank, once all of them call."""

        def look():
            for child in self.children()[:1]:
                run = self.test.run_program(case.OPTIONS.diji, "ranks", child, "--json")
                found = json.loads(run.stdout)["communicators"][0]["ranks"] if run.returncode == 0 else []
                if sum(bool(rank["calls"]) for rank in found) == ranks:
                    return [rank["pid"] for rank in found]
            return None

        return self.until(look)

    def children(self):
        listed = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def end(self, code, seconds=DEATH_S):
        begin = time.monotonic()
        try:
            found = self.process.wait(timeout=120)
        except subprocess.TimeoutExpired:
            self.test.fail(f"it does not end: {self.err()}")
        took = time.monotonic() - begin
        self.test.assertEqual(found, code, self.out() + self.err())
        self.test.assertLess(took, seconds, self.err())
        self.nothing_left()
        return self.err()

    def nothing_left(self, seconds=0):
        deadline = time.monotonic() + seconds
        while (left := running(self.marker)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.test.assertEqual(left, [])
        self.test.assertEqual(list(self.temporary.iterdir()), [])
