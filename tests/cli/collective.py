"""diji launch, ranks and bench collective: what is said, how soon, and what is left when ranks end in every way."""

import ctypes
import functools
import json
import os
import pathlib
import random
import re
import resource
import shlex
import signal
import socket
import time

import case
from case import Case
from jobs import DEATH_S, Job, running

LOOP = ["bench", "collective", "all_reduce", "--bytes", "4K", "--iters", "100000000"]  # until somebody ends it
FORKS = """#!/bin/sh
sleep 60 & # keeps every descriptor that the rank has
exec "$@"
"""


def siblings_may_read():
    """Whether the kernel lets one child of this process read the memory of another."""

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t)]

    one, other = ctypes.create_string_buffer(b"a", 1), ctypes.create_string_buffer(1)
    if (owner := os.fork()) == 0:
        signal.pause()
    if (reader := os.fork()) == 0:
        here, there = Piece(ctypes.addressof(other), 1), Piece(ctypes.addressof(one), 1)
        read = ctypes.CDLL(None).process_vm_readv(owner, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
        os._exit(0 if read == 1 else 1)
    status = os.waitpid(reader, 0)[1]
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    return status == 0


class Collective(Case):
    def setUp(self):
        self.spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime

    def job(self, ranks, command, *options, **environment):
        return Job(self, ranks, [case.OPTIONS.diji, *command], *options, **environment)

    def shell(self, ranks, text, *options, **environment):
        """`$DIJI` is the command."""
        return Job(self, ranks, ["sh", "-c", text], *options, DIJI=case.OPTIONS.diji, **environment)

    def one_line_a_rank(self, err, ranks, dead, ending, pid=r"\d+", found=""):
        """What survivors say and what launch says; that both name the dead rank."""
        for rank in set(range(ranks)) - {dead}:
            lines = [line for line in err.splitlines() if re.match(rf"rank {rank}: \w+ #\d+: ", line)]
            self.assertEqual(len(lines), 1, err)
            self.assertRegex(lines[0], rf": rank {dead} on \S+ \(pid {pid}\){found}", err)
        report = [line for line in err.splitlines() if line.startswith("diji launch: rank ")]
        self.assertEqual(len(report), ranks, err)
        self.assertRegex(report[dead], rf"^diji launch: rank {dead} \(pid {pid}\): {ending}", err)
        for rank in set(range(ranks)) - {dead}:
            self.assertRegex(report[rank], r"exit code 5; (in|after) #\d+ \w+", err)

    def test_a_rank_is_killed(self):
        seed = int(os.environ.get("DIJI_FAULT_SEED", "1"))
        draw = random.Random(seed)
        for ranks, operation, memory in (
            (2, "all_reduce", []),
            (3, "broadcast", []),
            (4, "all_to_all", []),
            (2, "all_gather", []),  # and, where they may, its private memory
            (2, "all_reduce", ["--registered"]),  # the others read in place what the dead rank wrote
            (3, "all_gather", ["--registered"]),
        ):
            with self.subTest(ranks=ranks, operation=operation, memory=memory, seed=seed):
                size = "4M" if memory or operation == "all_gather" else draw.choice(["8", "64K", "4M"])
                words = ["bench", "collective", operation, "--bytes", size, "--iters", "100000000", *memory]
                job = self.job(ranks, words)
                pids = job.pids(ranks)
                time.sleep(draw.random() * 0.2)
                dead = draw.randrange(ranks)
                os.kill(pids[dead], signal.SIGKILL)
                ending = r"killed by signal 9 \(Killed\)"
                self.one_line_a_rank(job.end(5), ranks, dead, ending, pids[dead], " died$")

    def test_ranks_of_several_hosts(self):
        for host, environment, transport in (
            ("$((DIJI_RANK / 2))", {}, "shm+tcp"),
            ("$DIJI_RANK", {}, "tcp"),
            ("all", {"DIJI_TRANSPORT": "tcp"}, "tcp"),
        ):
            with self.subTest(host=host, transport=transport):
                bench = "bench collective all_reduce --sizes 8:4M --seconds 0.01 --check"
                job = self.shell(4, f'DIJI_HOST_ID={host} exec "$DIJI" {bench}', **environment)
                job.end(0, seconds=30)
                rows = [line.split() for line in job.out().splitlines()[1:]]
                self.assertEqual(len(rows), 20, job.out())
                self.assertEqual({(row[3], row[-1]) for row in rows}, {(transport, "0")}, job.out())

    def test_a_rank_of_another_host_is_killed(self):
        for host, hosts in (("$((DIJI_RANK / 2))", 2), ("$DIJI_RANK", 4)):
            with self.subTest(hosts=hosts):
                job = self.shell(4, f'DIJI_HOST_ID={host} exec "$DIJI" {shlex.join(LOOP)}')

                def called(pid, here=4 // hosts):
                    run = self.run_program(case.OPTIONS.diji, "ranks", pid, "--json")
                    ranks = json.loads(run.stdout)["communicators"][0]["ranks"] if run.returncode == 0 else []
                    return sum(bool(rank["calls"]) for rank in ranks) == here

                job.until(lambda job=job, called=called: len(job.children()) == 4 and all(map(called, job.children())))
                os.kill(job.children()[2], signal.SIGKILL)
                err = job.end(5)
                for rank in (0, 1, 3):
                    self.assertRegex(err, rf"(?m)^rank {rank}: \w+ #\d+: rank 2 on \S+ \(pid \d+\)", err)

    def test_a_child_of_the_dead_rank_lives_on(self):
        script = self.write("forks", FORKS.encode())
        script.chmod(0o755)
        job = Job(self, 2, [script, case.OPTIONS.diji, *LOOP])
        os.kill(job.pids(2)[1], signal.SIGKILL)
        self.one_line_a_rank(job.end(5), 2, 1, "killed by signal 9")

    def test_a_rank_is_stopped_and_goes_on(self):
        job = self.job(2, [*LOOP[:-2], "--seconds", "2"], DIJI_WARN_AFTER="1")
        pid = job.pids(2)[1]
        os.kill(pid, signal.SIGSTOP)
        job.until(lambda: "for rank 1 on" in job.err())
        os.kill(pid, signal.SIGCONT)
        self.assertNotIn("diji launch", job.end(0, seconds=60))
        self.assertEqual(len(job.out().splitlines()), 2, job.out())  # the head of the table and its row

    def test_a_rank_is_stopped_past_the_deadline(self):
        job = self.job(3, LOOP, "--timeout", "2")
        pids = job.pids(3)
        os.kill(pids[2], signal.SIGSTOP)
        job.until(lambda: "for rank 2 on" in job.err())
        os.kill(pids[2], signal.SIGCONT)
        err = job.end(5)
        for rank in range(3):  # the one that was stopped learns that the others have given it up
            self.assertRegex(err, rf"(?m)^rank {rank}: \w+ #\d+: .* for rank 2 on ", err)
        self.assertRegex(err, r"for rank 2 on \S+ \(pid \d+\), which shows no sign of life for")

    def test_a_stopped_rank_is_ended(self):
        job = self.job(2, LOOP, "--timeout", "3")  # longer than it takes to count as silent
        os.kill(job.pids(2)[0], signal.SIGSTOP)
        err = job.end(5, seconds=20)
        self.assertRegex(err, r"(?m)^rank 1: \w+ #\d+: .* waits [\d.]+ s for rank 0 .*no sign of life")
        self.assertRegex(err, r"diji launch: rank 0 \(pid \d+\): killed by signal 9")

    def test_a_rank_leaves_early(self):
        text = 'n=1000000; [ $DIJI_RANK = 1 ] && n=20; '
        job = self.shell(3, text + 'exec "$DIJI" bench collective all_reduce --bytes 8 --iters $n')
        self.one_line_a_rank(job.end(5), 3, 1, "exit code 0")

    def test_ranks_that_differ(self):
        for mine, other, named in (
            ("all_reduce", "barrier", ("all_reduce", "barrier")),
            ("all_reduce", "all_gather", ("all_reduce of 1024 f32, sum", "all_gather of 512 f32")),
            ("broadcast", "broadcast --root 1", ("root 0", "root 1")),
            ("all_gather", "all_gather --dtype i32", ("f32", "i32")),
            ("all_reduce", "all_reduce --redop max", ("sum", "max")),
        ):
            with self.subTest(mine=mine, other=other):
                text = f'[ $DIJI_RANK = 1 ] && exec "$DIJI" bench collective {other} --bytes 4K; '
                job = self.shell(2, text + f'exec "$DIJI" bench collective {mine} --bytes 4K')
                err = job.end(5)
                for rank in range(2):
                    said = rf"(?m)^rank {rank}: \w+ #\d+: rank [01] calls .*, but rank [01] on \S+ \(pid \d+\) calls "
                    self.assertRegex(err, said, err)
                for word in named:
                    self.assertIn(word, err)

    def test_the_example_in_c(self):
        mean = pathlib.Path(case.OPTIONS.diji).with_name("mean_over_ranks")
        for ranks in (1, 3):
            job = Job(self, ranks, [mean, "70001"])
            self.assertEqual(job.end(0, seconds=60), "")
            transports = "" if ranks == 1 else "shm"
            self.assertEqual(job.out(), f"the mean of 70001 elements over {ranks} ranks ({transports})\n")
        text = f'n=1000; [ $DIJI_RANK = 1 ] && n=2000; exec "{mean}" $n'
        err = self.shell(2, text).end(5, seconds=60)
        for rank in range(2):
            self.assertRegex(err, rf"(?m)^mean_over_ranks: all_reduce: rank {rank}: .* calls all_reduce of ", err)
        self.assertEqual(len(re.findall(r"(?m)^mean_over_ranks: rank [01] on \S+, process \d+, call 0$", err)), 2, err)
        self.assertEqual(self.run_program(mean, "many").returncode, 2)

    def test_a_rank_never_arrives(self):
        text = '[ $DIJI_RANK = 2 ] && exec sleep 3; exec "$DIJI" bench collective barrier'
        job = self.shell(3, text, "--timeout", "1")
        err = job.end(5, seconds=10)
        self.assertEqual(err.count("rank 2 never arrived"), 2, err)
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        token = self.write("token", b"secret\n")
        token.chmod(0o600)
        environment = {"DIJI_RANK": "0", "DIJI_WORLD_SIZE": "2", "DIJI_RENDEZVOUS": address}
        environment |= {"DIJI_TOKEN_FILE": str(token), "DIJI_TIMEOUT": "1"}  # and no launcher
        words = ["bench", "collective", "barrier"]
        self.refused(*words, code=5, error="deadline", says=["rank 1 never arrived"], **environment)

    def test_the_launcher_is_killed(self):
        job = self.job(3, LOOP)
        job.pids(3)
        job.process.kill()
        job.process.wait()
        job.nothing_left(seconds=DEATH_S)

    def test_signals_of_the_launcher(self):
        direct = [case.OPTIONS.diji, *LOOP]
        for command, comes in (
            (direct, lambda job: len(running(job.marker)) > 2),  # while they start
            (direct, lambda job: job.pids(2)),  # while they call
            (["sh", "-c", f"{shlex.join(direct)}; true"], lambda job: len(running(job.marker)) > 4),
        ):
            for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)):
                with self.subTest(number=number, command=command[0]):
                    job = Job(self, 2, command)
                    job.until(functools.partial(comes, job))
                    job.process.send_signal(number)
                    self.assertNotIn("diji launch", job.end(code))

    def test_environment_of_ranks(self):
        names = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "RENDEZVOUS", "TOKEN_FILE", "TIMEOUT"]
        text = "echo " + " ".join(f"$DIJI_{name}" for name in names) + '; stat -L -c %a "$DIJI_TOKEN_FILE"'
        job = self.shell(2, text, "--tag", "--timeout", "7", "--")
        job.end(0)
        for rank in range(2):
            lines = [line[4:] for line in job.out().splitlines() if line.startswith(f"[{rank}] ")]
            self.assertRegex(lines[0], rf"^{rank} 2 {rank} 127\.0\.0\.1:\d+ /\S+ 7$")
            self.assertEqual(lines[1], "600")
        for environment, said in (({}, ""), ({"DIJI_TIMEOUT": "5"}, "5")):
            job = self.shell(1, "echo $DIJI_TIMEOUT", **environment)
            job.end(0)
            self.assertEqual(job.out(), said + "\n")

    def test_exit_codes_and_output(self):
        job = self.shell(3, 'echo "rank $DIJI_RANK of $DIJI_WORLD_SIZE, $DIJI_LOCAL_RANK"; exit $((DIJI_RANK * 3))')
        self.assertEqual(job.end(3), "")
        self.assertEqual(sorted(job.out().splitlines()), [f"rank {rank} of 3, {rank}" for rank in range(3)])
        job = self.shell(2, "echo a; echo b; printf c", "--tag")
        self.assertEqual(job.end(0), "")
        self.assertEqual(sorted(job.out().splitlines()), [f"[{rank}] {line}" for rank in range(2) for line in "abc"])

    def test_a_rank_closes_its_output(self):
        job = self.shell(1, "printf last; exec >&- 2>&-; exec sleep 1", "--tag")
        job.end(0)
        self.assertEqual(job.out(), "[0] last\n")
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - self.spent
        self.assertLess(spent, 0.5, "the launcher sleeps until the rank ends")

    def test_what_ranks_leave_behind_ends(self):
        job = self.shell(2, "sleep 60 & exit 0")
        job.end(0)

    def test_rows_of_bench(self):
        keys = {"operation", "algorithm", "transport", "size_bytes", "count", "dtype", "redop", "root", "in_place"}
        keys |= {"registered", "process_vm", "time_us", "algbw_gbps", "busbw_gbps", "wrong"}
        for operation, registered in (
            ("all_reduce", False),
            ("all_gather", True),
            ("reduce_scatter", False),
            ("broadcast", False),
            ("reduce", True),
            ("gather", False),
            ("scatter", False),
            ("all_to_all", False),
        ):
            with self.subTest(operation):
                words = ["bench", "collective", operation, "--sizes", "512:64K", "--check", "--seconds", "0.01"]
                words += ["--dtype", "bf16", "--json", *["--registered"] * registered]
                job = self.job(3, words)
                job.end(0, seconds=30)
                rows = json.loads(job.out())["rows"]
                self.assertEqual(len(rows), 8)
                for row in rows:
                    self.assertEqual(keys - set(row), set())
                    self.assertEqual((row["operation"], row["wrong"], row["transport"]), (operation, 0, "shm"))
                    self.assertEqual(row["registered"], registered)
                    self.assertGreater(row["time_us"], 0)

    def test_private_memory_is_read_where_all_agree(self):
        bench = "bench collective {} --sizes 64K:512K --check --seconds 0.01 --json"
        for off in ("none", "0", "1"):
            for operation in ("all_gather", "broadcast", "all_to_all"):
                with self.subTest(off=off, operation=operation):
                    setting = f"[ $DIJI_RANK = {off} ] && export DIJI_PROCESS_VM=off;"
                    job = self.shell(2, f'{setting} exec "$DIJI" {bench.format(operation)}')
                    job.end(0, seconds=30)
                    rows = json.loads(job.out())["rows"]
                    self.assertEqual({row["wrong"] for row in rows}, {0})
                    permitted = off == "none" and siblings_may_read()
                    self.assertEqual({row["process_vm"] for row in rows}, {permitted})
        run = self.diji(*bench.format("gather").split(), code=2, DIJI_PROCESS_VM="maybe")
        self.assertIn("DIJI_PROCESS_VM=maybe: there are on and off", run.stderr)

    def priced(self, operation, world, size, topology=None, *words):
        """{algorithm: row}"""
        words = ["bench", "collective", operation, "--simulate", f"world={world}", "--bytes", size, *words]
        if topology is not None:
            words += ["--topology", self.write("topology.json", json.dumps(topology).encode())]
        rows = self.document(*words)["rows"]
        self.assertEqual([row["value"] for row in rows], sorted(row["value"] for row in rows), "the cheapest first")
        return {row["algorithm"]: row for row in rows}

    def test_prices(self):
        within = {"latency_us": 3, "bandwidth_gbps": 0.1}  # 10 us for 1000 bytes
        between = {"latency_us": 50, "bandwidth_gbps": 0.01}  # 100 us
        topology = {"within_host": within, "between_hosts": between, "reduce_gbps": 0.5, "ranks_per_host": 2}
        for world, algorithm, cost, played in (
            (2, "direct", 13, 13),
            (2, "binomial_tree", 13, 13),
            (4, "hierarchical", 150 + 13, 150 + 13),
            (4, "direct", 3 * 150, 2 * 150 + 13),  # one of the three shares the root's host
        ):
            with self.subTest(world=world, algorithm=algorithm):
                row = self.priced("broadcast", world, "1000", topology)[algorithm]
                self.assertAlmostEqual(row["cost_us"], cost)
                self.assertAlmostEqual(row["played_us"], played)
        row = self.priced("reduce", 2, "1000", topology)["direct"]
        self.assertAlmostEqual(row["cost_us"], 13 + 2)
        rows = self.priced("all_reduce", 4096, "8", topology | {"ranks_per_host": 8})
        self.assertEqual(len(rows), 8)
        self.assertEqual(sum(row["chosen"] for row in rows.values()), 1)
        self.assertEqual({row["played_us"] for row in rows.values()}, {None})
        self.assertEqual(list(self.priced("all_reduce", 3, "8", None, "--algorithm", "ring")), ["ring"])
        self.assertEqual(list(self.priced("all_reduce", 3, "8", None, "--exact")), ["direct"])
        document = self.document("bench", "collective", "barrier", "--simulate", "world=1000000")
        self.assertEqual(document["machine"]["hosts"], 1)
        self.assertAlmostEqual(document["rows"][0]["cost_us"], 20)  # 2^20 is the next power; 1 us a message
        text = self.diji("bench", "collective", "scan", "--simulate", "world=5", "--sizes", "8:32").stdout
        self.assertEqual(len(text.splitlines()), 1 + 3 * 3, text)
        self.assertEqual(text.count("chosen"), 3, text)

    def test_prices_refused(self):
        simulate = ["bench", "collective", "all_reduce", "--simulate"]
        for words, part in (
            (["4"], "'4' is not world=N"),
            (["world="], "not world=N"),
            (["world=0"], "not world=N"),
            (["world=2097152"], "not world=N"),
            (["world=4 "], "not world=N"),
            (["world=4", "--check"], "--check has no meaning"),
            (["world=4", "--registered"], "--registered has no meaning"),
            (["world=4", "--iters", "3"], "--iters has no meaning"),
            (["world=4", "--root", "4"], "--root 4: there are 4 ranks"),
            (["world=4", "--algorithm", "rings"], "rings"),
            (["world=4", "--algorithm", "hierarchical"], "hierarchical does not support 4 ranks on 1 hosts"),
        ):
            with self.subTest(words):
                self.assertIn(part, self.diji(*simulate, *words, code=2).stderr)
        self.assertIn("--topology is of --simulate", self.diji(*simulate[:3], "--topology", "x", code=2).stderr)
        self.assertIn("absent", self.diji(*simulate, "world=4", "--topology", "absent", code=3).stderr)
        for text, part in (
            ("{", "topology.json:1: it is no JSON"),
            ('{"ranks_per_host": 2,\n\n ]', "topology.json:3: it is no JSON"),
            ("[]", "topology.json:1: it is no object"),
            ('{"ranks_per_host": 2,\n "within_hosts": {}}', ":2: there is no key 'within_hosts' here, but"),
            ('{"ranks_per_host": 2,\n "within_hosts": {}}', "(did you mean 'within_host'?)"),
            ('{"within_host":\n {\n "latency": 2}}', ":3: there is no key 'latency' here, but latency_us, bandwidth"),
            ('{\n"within_host": 3}', ":2: within_host is no object"),
            ('{"within_host":\n {"latency_us": -1}}', ":2: latency_us is -1, not a number of 0 to"),
            ('{"between_hosts":\n {"bandwidth_gbps": 0}}', ":2: bandwidth_gbps is 0, not a number of"),
            ('{"reduce_gbps": "fast"}', ':1: reduce_gbps is "fast", not a number'),
            ('\n{"ranks_per_host": 1.5}', ":2: ranks_per_host is no integer"),
            ('{"ranks_per_host": 0}', ":1: ranks_per_host is 0, not a number of 1"),
        ):
            with self.subTest(text):
                self.write("topology.json", text.encode())
                err = self.diji(*simulate, "world=4", "--topology", "topology.json", code=3).stderr
                self.assertIn(part, err)

    def test_refusals(self):
        for words, code, part in (
            ([], 2, "needs CMD"),
            (["true"], 2, "needs -n N"),
            (["-n", "0", "true"], 2, "-n: '0'"),
            (["-n", "x", "true"], 2, "-n: 'x'"),
            (["-n", "2"], 2, "CMD"),
            (["-n", "2", "--timeout", "0", "true"], 2, "--timeout"),
            (["-n", "2", "--timeout", "1e7", "true"], 2, "--timeout"),
            (["-n", "2", "./no-such-command", "--json"], 3, "no-such-command"),
        ):
            with self.subTest(words):
                self.assertIn(part, self.diji("launch", *words, code=code).stderr)
        self.assertIn("is no verb", self.diji("lunch", code=2).stderr)
        self.refused("bench", "collective", "all_redcue", code=2, error="usage", says=["all_reduce"])
        open_to_all = self.write("token", b"secret\n")
        open_to_all.chmod(0o644)
        barrier = ["bench", "collective", "barrier"]
        rank = {"DIJI_RANK": "0", "DIJI_WORLD_SIZE": "1"}
        for environment, part in (
            (rank | {"DIJI_TOKEN_FILE": str(open_to_all)}, "others may read it; make it yours alone (chmod 600)"),
            (rank | {"DIJI_TOKEN_FILE": str(self.here / "absent")}, "no such file"),
            (rank | {"DIJI_WORLD_SIZE": "many"}, "DIJI_WORLD_SIZE=many is no number"),
            (rank | {"DIJI_WORLD_SIZE": "-1"}, "DIJI_WORLD_SIZE=-1 is no number"),
            (rank | {"DIJI_WORLD_SIZE": "0"}, "rank 0 of a world of 0"),
            ({"DIJI_RANK": "3", "DIJI_WORLD_SIZE": "2"}, "rank 3 of a world of 2"),
            ({"DIJI_RANK": "0"}, "DIJI_WORLD_SIZE is not set"),
            ({"DIJI_RANK": "0", "DIJI_WORLD_SIZE": "2"}, "DIJI_RENDEZVOUS is not set"),
            (rank | {"DIJI_TIMEOUT": "soon"}, "DIJI_TIMEOUT=soon is no number"),
            (rank | {"DIJI_WARN_AFTER": "-3"}, "DIJI_WARN_AFTER=-3 is no number"),
        ):
            with self.subTest(environment):
                code, error = (3, "not_found") if "absent" in str(environment) else (2, "usage")
                self.refused(*barrier, code=code, error=error, says=[part], **environment)

    def test_ranks_of_a_job_that_waits(self):
        job = self.job(2, LOOP)
        pids = job.pids(2)
        os.kill(pids[1], signal.SIGSTOP)

        def waits():
            return self.document("ranks", pids[0])["communicators"][0]["ranks"][0]["calls"][0]["waits_for"] == 1

        job.until(waits)
        last = self.document("ranks", pids[0])["communicators"][0]
        self.assertEqual([rank["pid"] for rank in last["ranks"]], pids)
        self.assertIsNone(last["failure"])
        self.assertEqual((last["ranks"][0]["state"], len(last["ranks"][0]["calls"])), ("present", 1))
        dump = self.document("ranks", pids[0], "--dump")["communicators"][0]
        calls = dump["ranks"][0]["calls"]
        self.assertGreater(len(calls), 1)
        self.assertEqual([call["seq"] for call in calls], list(range(calls[0]["seq"], calls[0]["seq"] + len(calls))))
        text = self.diji("ranks", pids[0]).stdout
        self.assertRegex(text, r"rank 0 \(pid \d+\): in #\d+ \w+.*, waits for rank 1")
        os.kill(pids[1], signal.SIGCONT)
        job.process.terminate()
        job.end(143)
        for word, code, error, part in (
            (os.getpid(), 3, "not_found", "is no rank of a job"),
            (pids[0], 3, "not_found", "No such file"),
            ("x", 2, "usage", "'x' is no process id"),
        ):
            self.refused("ranks", word, code=code, error=error, says=[part])
