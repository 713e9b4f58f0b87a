"""Ranks: launch, bench collective, ranks; and what a rank that is killed, stopped or wrong does to the others."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time

from case import OPTIONS, Case

SLOW = 60  # seconds: five times what any of this takes on a busy machine


class Launched(Case):
    """Real processes on this machine."""

    def start(self, *words, **options):
        environment = self.environment | {"TMPDIR": str(self.here / "tmp")}
        (self.here / "tmp").mkdir(exist_ok=True)
        command = [OPTIONS.diji, "launch", *words]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, env=environment, cwd=self.here, **pipes, **options)

    def ended(self, process, code):
        """Its stdout and stderr; nothing is left of it."""
        out, err = process.communicate(timeout=SLOW)
        self.assertEqual(process.returncode, code, out + err)
        self.assertEqual(list((self.here / "tmp").iterdir()), [], "the launcher cleans what it made")
        return out, err

    def forever(self, ranks, *options):
        words = ["bench", "collective", "all_reduce", "--bytes", "64K", "--iters", "100000000"]
        process = self.start("-n", str(ranks), *options, OPTIONS.diji, *words)
        for _ in range(SLOW * 100):  # until all ranks work
            pids = self.children(process.pid)
            if len(pids) == ranks and self.calls_of(pids[0]) > 100:
                return process, pids
            time.sleep(0.01)
        self.fail("the ranks never worked")

    @staticmethod
    def children(pid):
        path = f"/proc/{pid}/task/{pid}/children"
        with open(path, encoding="ascii") as file:
            return [int(word) for word in file.read().split()]

    def calls_of(self, pid):
        run = self.run_program(OPTIONS.diji, "ranks", str(pid), "--json")
        if run.returncode != 0:
            return 0
        ranks = json.loads(run.stdout)["communicators"][0]["ranks"]
        return min((call["seq"] for rank in ranks for call in rank["calls"]), default=0)

    def test_environment_of_ranks(self):
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "RENDEZVOUS", "TOKEN_FILE", "TIMEOUT"]
        script = "echo " + " ".join(f"$DIJI_{name}" for name in names) + '; stat -L -c %a "$DIJI_TOKEN_FILE"'
        out, _ = self.ended(self.start("-n", "2", "--tag", "--timeout", "7", "sh", "-c", script), 0)
        for rank in range(2):
            lines = [line[4:] for line in out.splitlines() if line.startswith(f"[{rank}] ")]
            self.assertRegex(lines[0], rf"^{rank} 2 {rank} 127\.0\.0\.1:\d+ /\S+ 7$")
            self.assertEqual(lines[1], "600")

    def test_exit_codes(self):
        self.ended(self.start("-n", "2", "sh", "-c", "exit $((DIJI_RANK * 3))"), 3)
        self.ended(self.start("-n", "1", "true"), 0)
        for sent, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            process, _ = self.forever(2)
            process.send_signal(sent)
            self.ended(process, code)

    def test_wrong_usage(self):
        for words, code, says in (
            (["-n", "0", "true"], 2, "-n: '0'"),
            (["true"], 2, "-n N"),
            (["-n", "2"], 2, "CMD"),
            (["-n", "2", "./no-such-program", "--json"], 3, "no-such-program"),
        ):
            self.assertIn(says, self.diji("launch", *words, code=code).stderr)
        self.refused("ranks", str(os.getpid()), code=3, error="not_found", says=["no rank of a job"])
        self.refused("ranks", "x", code=2, error="usage", says=["'x'"])
        self.refused("bench", "collective", "all_redcue", code=2, error="usage", says=["all_reduce"])
        self.refused("bench", "collective", "barrier", code=2, error="usage", says=["DIJI_WORLD_SIZE"], DIJI_RANK="0")

    def test_rows_of_bench(self):
        operations = ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather", "scatter"]
        operations += ["all_to_all"]
        keys = ["operation", "algorithm", "transport", "size_bytes", "count", "dtype", "redop", "root", "in_place"]
        keys += ["registered", "time_us", "algbw_gbps", "busbw_gbps", "wrong"]
        for operation in operations:
            words = ["bench", "collective", operation, "--sizes", "512:64K", "--check", "--seconds", "0.01", "--json"]
            words += ["--registered"] if operation in ("all_gather", "reduce") else []
            out, _ = self.ended(self.start("-n", "3", OPTIONS.diji, *words, "--dtype", "bf16"), 0)
            rows = json.loads(out)["rows"]
            self.assertEqual(len(rows), 8)
            for row in rows:
                self.assertEqual(set(keys) - set(row), set())
                self.assertEqual((row["operation"], row["wrong"], row["transport"]), (operation, 0, "shm"))
                self.assertEqual(row["registered"], "--registered" in words)
                self.assertGreater(row["time_us"], 0)

    def test_a_killed_rank_is_named_by_all(self):
        process, pids = self.forever(3)
        began = time.monotonic()
        os.kill(pids[1], signal.SIGKILL)
        _, err = self.ended(process, 5)
        self.assertLess(time.monotonic() - began, SLOW / 5)
        for rank in (0, 2):
            self.assertRegex(err, rf"(?m)^rank {rank}: \w+ #\d+: rank 1 on \S+ \(pid {pids[1]}\) died$")
        self.assertRegex(err, rf"(?m)^diji launch: rank 1 \(pid {pids[1]}\): killed by signal 9 \(Killed\)")
        self.assertEqual(len(re.findall(r"(?m)^diji launch: rank", err)), 3)

    def test_a_stopped_rank_goes_on_in_time_or_is_named(self):
        process, pids = self.forever(2, "--timeout", "60")
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(1)
        os.kill(pids[1], signal.SIGCONT)
        seen = self.calls_of(pids[0])
        for _ in range(SLOW * 10):
            if self.calls_of(pids[0]) > seen:
                break
            time.sleep(0.1)
        self.assertGreater(self.calls_of(pids[0]), seen)
        process.send_signal(signal.SIGTERM)
        self.ended(process, 143)
        process, pids = self.forever(2, "--timeout", "3")
        os.kill(pids[1], signal.SIGSTOP)
        _, err = self.ended(process, 5)
        self.assertRegex(err, rf"(?m)^rank 0: \w+ #\d+: .* waits [\d.]+ s for rank 1 .*no sign of life")

    def test_calls_that_do_not_match_are_named_on_both_sides(self):
        script = '[ "$DIJI_RANK" = 0 ] && o=all_reduce || o=all_gather; exec "$0" bench collective $o --bytes 1K'
        _, err = self.ended(self.start("-n", "2", "sh", "-c", script, OPTIONS.diji), 5)
        both = r"all_reduce of 256 f32, sum.*all_gather of 128 f32|all_gather of 128 f32.*all_reduce of 256 f32"
        self.assertRegex(err, rf"(?m)^rank [01]: .*({both})")

    def test_ranks_die_with_the_launcher(self):
        process, pids = self.forever(2)
        process.kill()
        process.communicate()
        for _ in range(SLOW * 10):
            if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
                break
            time.sleep(0.1)
        self.assertFalse(any(os.path.exists(f"/proc/{pid}") for pid in pids))
        self.assertEqual(list((self.here / "tmp").iterdir()), [])

    def test_a_rank_that_never_arrives_is_named(self):
        with tempfile.NamedTemporaryFile(dir=self.here) as token:
            token.write(b"secret\n")
            token.flush()
            common = {"DIJI_WORLD_SIZE": "2", "DIJI_RENDEZVOUS": "127.0.0.1:38411", "DIJI_TIMEOUT": "1"}
            words = ["bench", "collective", "barrier"]
            environment = common | {"DIJI_RANK": "0", "DIJI_TOKEN_FILE": token.name}
            self.refused(*words, code=5, error="deadline", says=["rank 1 never arrived"], **environment)
            os.chmod(token.name, 0o644)
            self.refused(*words, code=2, error="usage", says=["chmod 600"], **environment)
