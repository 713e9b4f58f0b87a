"""A real Slurm on this machine: munged, slurmctld and a slurmd for each virtual node, in a folder of its own."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

START_S = 30

CONFIGURATION = """\
ClusterName=diji
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={here}/sock
CredType=cred/munge
StateSaveLocation={here}/state
SlurmdSpoolDir={here}/spool/%n
SlurmctldPidFile={here}/slurmctld.pid
SlurmdPidFile={here}/slurmd.%n.pid
SlurmctldLogFile={here}/log/slurmctld
SlurmdLogFile={here}/log/slurmd.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=2
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
NODE = "NodeName=n{number} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 State=UNKNOWN\n"


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """Its daemons are children, which die with this process; SLURM_CONF is all that a client needs."""

    def __init__(self, folder, nodes=2):
        self.here = pathlib.Path(folder)
        self.nodes = [f"n{number + 1}" for number in range(nodes)]
        self.daemons = []
        self.environment = {"SLURM_CONF": str(self.here / "slurm.conf")}
        for name in ("state", "log", "munge"):
            (self.here / name).mkdir(mode=0o700, parents=True)
        key = self.here / "munge/key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        ports = free_ports(nodes + 1)
        text = CONFIGURATION.format(here=self.here, ports=ports, user="root")
        for number, port in enumerate(ports[1:], 1):
            text += NODE.format(number=number, port=port, host=socket.gethostname().split(".")[0])
        (self.here / "slurm.conf").write_text(text)
        try:
            self.begin()
        except BaseException:
            self.end()
            raise

    def begin(self):
        files = [f"--{name}={self.here}/{file}" for name, file in (
            ("socket", "sock"), ("key-file", "munge/key"), ("pid-file", "munged.pid"),
            ("seed-file", "munge/seed"), ("log-file", "log/munged"))]  # fmt: skip
        # --force: it refuses folders below one that others can write to, such as /tmp.
        self.daemon("munged", "--foreground", "--force", *files)
        self.wait("munged's socket", (self.here / "sock").exists)
        self.daemon("slurmctld", "-D", "-c", "-f", self.here / "slurm.conf")
        for node in self.nodes:
            # A configuration for each node: PMIx makes a folder of the step's name in its base, where two would clash.
            for name in ("conf", "spool", "tmp"):
                (self.here / name / node).mkdir(parents=True)
            shutil.copy(self.here / "slurm.conf", self.here / "conf" / node)
            (self.here / "conf" / node / "mpi.conf").write_text(f"PMIxCliTmpDirBase={self.here}/tmp/{node}\n")
            self.daemon("slurmd", "-D", "-N", node, "-f", self.here / "conf" / node / "slurm.conf")
        self.wait("its nodes", lambda: self.states() == ["idle"] * len(self.nodes))

    def daemon(self, *words):
        with (self.here / "log/output").open("a") as output:
            # They end with this process, however it ends.
            command = ["setpriv", "--pdeathsig", "KILL", *map(str, words)]
            files = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            self.daemons.append(subprocess.Popen(command, env=os.environ | self.environment, **files))

    def states(self):
        command = ["sinfo", "-h", "-N", "-o", "%T"]
        listed = subprocess.run(command, env=os.environ | self.environment, capture_output=True, text=True)
        return listed.stdout.split()

    def wait(self, what, ready):
        deadline = time.monotonic() + START_S
        while not ready():
            ended = [daemon.args for daemon in self.daemons if daemon.poll() is not None]
            if ended or time.monotonic() > deadline:
                logs = "\n".join(file.read_text(errors="replace")[-1500:] for file in (self.here / "log").iterdir())
                raise RuntimeError(f"Slurm: {what} did not come to be; ended: {ended}\n{logs}")
            time.sleep(0.05)

    def end(self):
        subprocess.run(["scancel", "--quiet", "--user=root"], env=os.environ | self.environment, check=False,
                       capture_output=True)  # fmt: skip
        for daemon in reversed(self.daemons):  # munged last: the others need it to say goodbye
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(timeout=8)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
