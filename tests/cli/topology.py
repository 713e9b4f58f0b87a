"""diji topo: what it says of this machine and of jobs, its file, and what is refused."""

import json
import os
import sys

from jobs import Job

import case
from case import Case

MACHINE = {
    "hosts": [
        {
            "name": "big",
            "count": 512,
            "machine_pus": 32,
            "machine_numa_nodes": 2,
            "cores": [{"package": i // 8, "numa": i // 8, "cache": i // 4, "pus": [i, i + 16]} for i in range(16)],
        }
    ],
    "ranks_per_host": 8,
    "links": [
        {"between": "cache", "measured": {"latency_us": 0.2, "bandwidth_gbps": 10}, "expected": {"bandwidth_gbps": 9}},
        {"between": "host", "measured": {"latency_us": 0.5, "bandwidth_gbps": 5}},
        {
            "between": "network",
            "measured": {"latency_us": 20, "bandwidth_gbps": None},
            "expected": {"bandwidth_gbps": 1},
        },
    ],
    "pairs": [
        {"a": 0, "b": 1, "between": "cache", "latency_us": 0.2, "bandwidth_gbps": 10},
        {"a": 0, "b": 2, "between": "cache", "latency_us": 0.2, "bandwidth_gbps": 4.5},
    ],
}


class Topology(Case):
    def test_this_machine(self):
        document = self.document("topo", "--save", "machine.json")
        cores = len(document["hosts"][0]["cores"])
        self.assertEqual(len(document["pairs"]), min(cores, 16) * (min(cores, 16) - 1) // 2)
        for pair in document["pairs"]:
            self.assertGreater(pair["latency_us"], 0)
            self.assertGreater(pair["bandwidth_gbps"], 0)
        loaded = self.document("topo", "--load", "machine.json")
        self.assertEqual(loaded, document)
        text = self.diji("topo", "--no-measure", COLUMNS="60").stdout
        self.assertIn("NUMA node", text)
        self.assertLessEqual(max(map(len, text.splitlines())), 60)
        self.assertNotIn("\x1b", text)

    def test_ranks_of_a_job(self):
        for hosts, between in ((1, None), (2, "network")):
            with self.subTest(hosts=hosts):
                text = f'DIJI_HOST_ID=$((DIJI_RANK * {hosts} / 2)) exec "$DIJI" topo --json'
                job = Job(self, 2, ["sh", "-c", text], DIJI=case.OPTIONS.diji)
                job.end(0, seconds=60)
                document = json.loads(job.out())
                self.assertEqual([(pair["a"], pair["b"]) for pair in document["pairs"]], [(0, 1)])
                self.assertEqual(sum(host["count"] for host in document["hosts"]), hosts)
                if between:
                    self.assertEqual(document["links"][0]["between"], between)
                    self.assertEqual(document["between_hosts"]["latency_us"], document["pairs"][0]["latency_us"])

    def test_ranks_are_bound_to_cores_of_their_own(self):
        usable = os.sched_getaffinity(0)
        if len(usable) < 2:
            self.skipTest("one hardware thread cannot be shared out")

        def bound(ranks, *options):
            text = "from os import *; print(getenv('DIJI_RANK'), *sched_getaffinity(0))"
            job = Job(self, ranks, [sys.executable, "-c", text], *options)
            job.end(0, seconds=30)
            return {int(line.split()[0]): set(map(int, line.split()[1:])) for line in job.out().splitlines()}

        masks = bound(2)
        self.assertEqual(masks[0] & masks[1], set())
        self.assertEqual(len(masks[0]), len(masks[1]))
        self.assertLessEqual(masks[0] | masks[1], usable)
        self.assertEqual(bound(1), {0: usable})
        self.assertEqual(bound(2, "--no-bind"), {0: usable, 1: usable})
        many = len(usable) + 1  # somebody would have to share
        self.assertEqual(bound(many), {rank: usable for rank in range(many)})

    def test_a_file(self):
        file = self.write("big.json", json.dumps(MACHINE).encode())
        run = self.diji("topo", "--load", file)
        self.assertIn("big and 511 like it", run.stdout)
        self.assertEqual(run.stdout.count("NUMA node"), 2)
        self.assertIn("cache 3   [12,28] [13,29] [14,30] [15,31]", run.stdout)
        self.assertIn("0 and 2 (below one cache): 4.5 GB/s measured, 9 expected (50 %)", run.stderr)
        self.assertNotIn("0 and 1", run.stderr)
        lines = self.diji("topo", "--load", file, COLUMNS="42").stdout.splitlines()
        drawing = [line for line in lines if line[0] in "┌│└"]
        self.assertLessEqual(max(map(len, drawing)), 42)
        document = self.document("topo", "--load", file)
        self.assertEqual(document["within_host"], {"latency_us": 0.5, "bandwidth_gbps": 5.0})
        self.assertEqual(document["between_hosts"], {"latency_us": 20.0, "bandwidth_gbps": 1.0})
        words = ["bench", "collective", "all_reduce", "--simulate", "world=4096", "--bytes", "8", "--topology", file]
        machine = self.document(*words)["machine"]
        self.assertEqual((machine["hosts"], machine["between_hosts"]["latency_us"]), (512, 20.0))
        fast = {"links": [{"between": "cache", "measured": {"bandwidth_gbps": 100}}]}
        against = self.write("fast.json", json.dumps(fast).encode())
        err = self.diji("topo", "--load", file, "--against", against).stderr
        self.assertIn("0 and 1 (below one cache): 10 GB/s measured, 100 expected (10 %)", err)

    def test_refused(self):
        self.refused("topo", "--load", "absent.json", code=3, error="not_found")
        self.refused("topo", "--load", "big.json", "--no-measure", code=2, error="usage", says=["measures nothing"])
        for text, part in (
            ('{\n"hosts": {}}', "file.json:2: hosts is no list"),
            ('{"hosts": [3]}', "an entry of hosts is no object"),
            ('{"hosts": [{}]}', "a host has no cores"),
            ('{"hosts": [{"name": 3}]}', "name is no text"),
            ('{"hosts": [{"cores": [{"pus": []}]}]}', "pus is no list of numbers"),
            ('{"hosts": [{"cores": [{"pus": ["x"]}]}]}', "pus is no list of numbers"),
            ('{"hosts": [{"cores": [{"pus": 3}]}]}', "pus is no list of numbers"),
            ('{"hosts": [{"cors": []}]}', "there is no key 'cors' here, but"),
            ('{"links": [{"between": "cash"}]}', "between is 'cash'; there are core, cache"),
            ('{"links": [{"between": "cache", "measured": 3}]}', "measured is no object"),
            ('{"pairs": [{"a": -1, "between": "cache"}]}', "a is -1, not a number of 0"),
            ('{"pairs": [{"a": 0.5, "between": "cache"}]}', "a is no integer"),
        ):
            with self.subTest(text):
                self.write("file.json", text.encode())
                self.refused("topo", "--load", "file.json", code=3, error="malformed", says=[part])
