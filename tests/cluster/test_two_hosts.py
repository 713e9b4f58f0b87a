"""Ranks on two hosts, in network namespaces: by hand and by MPI launchers; the cable is cut, and healed."""

import os
import shlex
import time
import unittest

import hosts
import launched
from launched import CHECKED, LOOP, AnyLauncher, Launched, needs

REPLY_S = 10  # a host that answers nothing for 4 s is gone


@unittest.skipUnless(hosts.allowed(), f"{hosts.NO_NAMESPACES}=1: nothing about two hosts was tested")
class TwoHosts(Launched):
    world = 4
    hosts = 2

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("ip", "nsenter", "unshare", "setpriv")
        cls.pair = hosts.Hosts()
        cls.addClassCleanup(cls.pair.end)


class TwoHostsByHand(TwoHosts, AnyLauncher):
    """As a script with ssh starts them: variables, and a token in a file that both hosts have."""

    launcher = "diji"
    transport = "shm+tcp"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.token = cls.here / "token"
        cls.token.write_text(f"{os.urandom(16).hex()}\n")
        cls.token.chmod(0o600)
        cls.port = 4000

    def commands(self, world, words, token=True):
        type(self).port += 1
        common = [f"DIJI_WORLD_SIZE={world}", f"DIJI_RENDEZVOUS={self.pair.addresses['a']}:{self.port}"]
        common += [f"DIJI_TOKEN_FILE={self.token}"] * token
        where = ["a"] * (world // 2) + ["b"] * (world - world // 2)
        return [
            self.pair.on(host, "env", *common, f"DIJI_RANK={rank}", *words) for rank, host in enumerate(where)
        ]

    def test_one_rank_a_host(self):
        machine = self.start(2, self.diji(CHECKED)).document()["machine"]
        self.assertEqual((machine["hosts"], machine["transport"]), (2, "tcp"))

    def test_without_a_token_it_is_refused(self):
        job = launched.Job(self, self.commands(2, self.diji(CHECKED), token=False))
        self.assertEqual(job.end(), [2, 2])
        self.assertEqual(job.said().count("needs a token (DIJI_TOKEN_FILE)\n"), 2, job.said())

    def test_a_cut_cable_is_a_named_error(self):
        job = self.start(4, self.diji(LOOP))
        job.ranks(4)
        self.pair.cut()
        try:
            self.assertEqual(job.end(REPLY_S), [5] * 4)
        finally:
            self.pair.heal()
        for rank, others in ((0, "23"), (1, "23"), (2, "01"), (3, "01")):
            self.assertRegex(job.said(), rf"(?m)^rank {rank}: \w+ #\d+: .*rank [{others}0-3] on host-[ab] \(pid \d+\)")
        self.right()

    def test_a_cable_that_is_healed_in_time_ends_nothing(self):
        words = [*LOOP[:-2], "--seconds", "6", "--check", "--json"]
        words[words.index("4K")] = "1M"
        job = self.start(4, self.diji(words))
        pid = job.ranks(4)[3]
        self.pair.cut()
        time.sleep(1)
        stuck = job.sequence(pid)
        time.sleep(1)
        self.assertEqual(job.sequence(pid), stuck, "no call ends over a cable that is cut")
        self.pair.heal()
        document = job.document()
        self.assertEqual([row["wrong"] for row in document["rows"]], [0])


class OfMpi(TwoHosts):
    """mpirun on host a; its agent, in place of ssh, starts the other host's part."""

    transport = "shm+tcp"
    deaths = (2,)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.agent = cls.here / "agent"
        other = shlex.join(cls.pair.on("b"))
        options = 'while [ "${1#-}" != "$1" ]; do shift; done'  # of ssh; then the host
        cls.agent.write_text(f'#!/bin/sh\n{options}\nshift\nexec {other} sh -c "$*"\n')
        cls.agent.chmod(0o755)


class OpenMpiOnTwoHosts(OfMpi, AnyLauncher):
    launcher = "pmix"
    survivors_speak = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("mpirun.openmpi")
        cls.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def commands(self, world, words):
        a, b = self.pair.addresses.values()
        places = ["--host", f"{a}:{world // 2},{b}:{world - world // 2}", "--oversubscribe"]
        agent = ["--mca", "plm_rsh_agent", self.agent, "-x", "DIJI_TEST_JOB", "-x", "DIJI_TIMEOUT"]
        return [self.pair.on("a", "mpirun.openmpi", *agent, *places, "-n", world, *words)]


class MpichOnTwoHosts(OfMpi, AnyLauncher):
    launcher = "pmi"
    survivors_speak = False
    names_who_is_missing = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("mpirun.mpich")

    def commands(self, world, words):
        a, b = self.pair.addresses.values()
        places = ["-hosts", f"{a}:{world // 2},{b}:{world - world // 2}"]
        agent = ["-launcher", "ssh", "-launcher-exec", self.agent]
        return [self.pair.on("a", "mpirun.mpich", *agent, *places, "-n", world, *words)]
