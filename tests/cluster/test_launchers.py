"""Slurm with PMIx and PMI, Open MPI, MPICH, torchrun's variables: start, kill, start again."""

import importlib.util
import json
import pathlib
import shlex
import socket
import subprocess
import sys

import launched
from launched import AnyLauncher, Launched, needs
from slurm import Slurm


class OfSlurm(Launched):
    """Two virtual nodes of one machine, told apart by the name that Slurm gives each."""

    hosts = 2
    transport = "shm+tcp"
    pmi = ""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("munged", "slurmctld", "slurmd", "srun", "setpriv")
        cls.slurm = Slurm(cls.here / "slurm")
        cls.addClassCleanup(cls.slurm.end)
        cls.environment |= cls.slurm.environment

    def srun(self, world, *words):
        return ["srun", "--quiet", "--overcommit", "-n", world, *words]

    def commands(self, world, words):
        named = ["sh", "-c", f"export DIJI_HOST_ID=$SLURMD_NODENAME; exec {shlex.join(words)}"]
        return [self.srun(world, "-N", 2, f"--mpi={self.pmi}", *named)]


class SlurmPmix(OfSlurm, AnyLauncher):
    launcher = "pmix"
    pmi = "pmix"

    def one(self, command, **environment):
        settings = self.environment | environment
        run = subprocess.run(list(map(str, command)), env=settings, capture_output=True, text=True, timeout=60)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return run

    def test_what_is_no_job_of_several_is_alone(self):
        words = [launched.OPTIONS.diji, "bench", "collective", "barrier", "--iters", "5", "--json"]
        # A shell inside of an allocation has Slurm's variables, and nobody to wait for.
        run = self.one(["salloc", "--quiet", "-n", 2, *words])
        self.assertEqual(json.loads(run.stdout)["machine"]["launcher"], "alone")
        self.assertNotIn("warning", run.stderr)
        # Neither has a step that was started without any PMI: each task says so.
        run = self.one(self.srun(2, "--mpi=none", *words))
        machines = [json.loads(line)["machine"] for line in run.stdout.splitlines()]
        self.assertEqual([(machine["ranks"], machine["launcher"]) for machine in machines], [(1, "alone")] * 2)
        self.assertEqual(run.stderr.count("one of 2 tasks of a step of Slurm that has no PMI"), 2, run.stderr)
        # Variables of a step that is over: its server does not answer.
        run = self.one(words, PMIX_NAMESPACE="slurm.pmix.1.0", PMIX_RANK="1")
        self.assertEqual(json.loads(run.stdout)["machine"]["ranks"], 1)
        self.assertIn("its server does not answer", run.stderr)

    def test_nodes_of_one_machine_share_memory_unless_they_are_named(self):
        job = launched.Job(self, [self.srun(4, "-N", 2, "--mpi=pmix", launched.OPTIONS.diji, *launched.CHECKED)])
        machine = job.document()["machine"]
        self.assertEqual((machine["hosts"], machine["transport"]), (1, "shm"))


class SlurmPmi2(OfSlurm, AnyLauncher):
    launcher = "pmi"
    pmi = "pmi2"
    names_who_is_missing = False


class Documents(OfSlurm):
    """What docs/guide shows of these launchers, in this very cluster."""

    def test_blocks(self):
        words = [sys.executable, "tests/docs_blocks.py", "--kind", "clusters"]
        settings = self.environment | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        root = pathlib.Path(__file__).resolve().parents[2]
        run = subprocess.run(words, cwd=root, env=settings, capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertGreaterEqual(run.stdout.count("\nok"), 5, run.stdout)


class OpenMpi(Launched, AnyLauncher):
    launcher = "pmix"
    survivors_speak = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("mpirun.openmpi")
        cls.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def commands(self, world, words):
        return [["mpirun.openmpi", "--oversubscribe", "-n", world, *words]]


class Mpich(Launched, AnyLauncher):
    launcher = "pmi"
    survivors_speak = False
    names_who_is_missing = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        needs("mpirun.mpich")

    def commands(self, world, words):
        return [["mpirun.mpich", "-n", world, *words]]


class Torchrun(Launched, AnyLauncher):
    """The real one where this Python has PyTorch (scripts/dev long), else processes with its variables."""

    launcher = "torchrun"
    survivors_speak = False

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.real = importlib.util.find_spec("torch") is not None
        print("torchrun:", "the real one" if cls.real else "its variables, set by the test", file=sys.stderr)
        cls.survivors_speak = not cls.real
        cls.patience_s = 100 if cls.real else 0  # importing it takes as long as a disk does

    def commands(self, world, words):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        if self.real:
            options = ["--nproc-per-node", world, "--master-addr", "127.0.0.1", "--master-port", port, "--no-python"]
            return [[sys.executable, "-m", "torch.distributed.run", *options, *words]]
        common = ["env", f"WORLD_SIZE={world}", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={port}"]
        common += [f"LOCAL_WORLD_SIZE={world}", "TORCHELASTIC_RUN_ID=none"]
        return [[*common, f"RANK={rank}", f"LOCAL_RANK={rank}", *words] for rank in range(world)]

    def test_an_address_that_others_reach_needs_a_token(self):
        words = [launched.OPTIONS.diji, "bench", "collective", "barrier"]
        settings = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "4000"}
        run = subprocess.run(words, env=self.environment | settings, capture_output=True, text=True, timeout=30)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("needs a token (DIJI_TOKEN_FILE)", run.stderr)
        del settings["MASTER_PORT"]
        run = subprocess.run(words, env=self.environment | settings, capture_output=True, text=True, timeout=30)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("MASTER_PORT is not set", run.stderr)
