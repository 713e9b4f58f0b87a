"""Two hosts on this machine: network namespaces with host names of their own, joined by a cable that can be cut."""

import os
import subprocess
import time

NO_NAMESPACES = "DIJI_TEST_WITHOUT_NAMESPACES"


def run(*command):
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class Hosts:
    """`a` and `b`. The namespaces live as long as a process in each, which dies with this one."""

    addresses = {"a": "10.77.0.1", "b": "10.77.0.2"}

    def __init__(self):
        self.keepers = {}
        try:
            for host in self.addresses:
                self.keepers[host] = subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "sh", "-c",
                     f"hostname host-{host} && echo ready && exec sleep infinity"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
                said = self.keepers[host].stdout.readline()
                if said != "ready\n":
                    raise RuntimeError(f"a network namespace cannot be made here: {said.strip()}")
                run(*self.on(host, "ip", "link", "set", "lo", "up"))
            other = self.keepers["b"].pid
            run(*self.on("a", "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", other))
            for host, address in self.addresses.items():
                run(*self.on(host, "ip", "address", "add", f"{address}/24", "dev", "eth0"))
                run(*self.on(host, "ip", "link", "set", "eth0", "up"))
        except BaseException:
            self.end()
            raise

    def on(self, host, *words):
        """The command, for this host."""
        return ["nsenter", f"--target={self.keepers[host].pid}", "--net", "--uts", "--", *map(str, words)]

    def cut(self):
        """Packets vanish on the way, as with a dead switch: they are sent to a machine that is not there."""
        for host, peer in (("a", "b"), ("b", "a")):
            run(*self.on(host, "ip", "neighbour", "replace", self.addresses[peer], "lladdr", "02:00:00:00:00:99",
                         "nud", "permanent", "dev", "eth0"))  # fmt: skip

    def heal(self):
        for host, peer in (("a", "b"), ("b", "a")):
            run(*self.on(host, "ip", "neighbour", "delete", self.addresses[peer], "dev", "eth0"))

    def end(self):
        for keeper in self.keepers.values():
            keeper.kill()
            keeper.wait()
            keeper.stdout.close()


def allowed():
    """False where a person has said so; a machine that cannot make namespaces fails."""
    return os.environ.get(NO_NAMESPACES) != "1"
