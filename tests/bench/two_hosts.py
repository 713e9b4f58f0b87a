#!/usr/bin/env python3
"""all_reduce over two hosts: network namespaces with a rate-limited link. A table.

    tests/bench/two_hosts.py --diji build/release/bin/diji [--rate 1gbit] [--ranks 2] [--rounds 5] [--seconds 0.3]
                             [--sizes 8,65536,1048576,4194304] [--pair 0] [--raw]

Needs root, ip and tc (iproute2). In each round all plans take their turn with ranks of their own; `--ranks` are those
of one host. A ratio is the time of the best flat plan over that of the hierarchical one, round by round: above 1
hierarchical is faster. Medians, with the least and the largest ratio.

--raw: the plan that diji takes by itself, beside a raw TCP stream: of as many bytes as a host must send (those of the
vector, whatever the ranks), both ways at once, over one connection with the system's settings. The ratio is the
stream's time over diji's: 1 is all that the link gives.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

FLAT = ("direct", "exchange", "ring", "recursive_doubling", "halving_doubling")
BURST = "128kb"  # at least what the kernel hands over in one piece
# RANK ADDRESS PORT SIZE SECONDS: microseconds for SIZE bytes each way, over and over after two that do not count.
STREAM = """
import socket, sys, threading, time
rank, address, port, size, seconds = sys.argv[1], sys.argv[2], *map(float, sys.argv[3:])
size, place = int(size), (address, int(port))
if rank == "0":
    with socket.create_server(place) as server:
        link = server.accept()[0]
else:
    for _ in range(500):
        try:
            link = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
out, into = bytes(size), bytearray(size)
def once(last):
    sender = threading.Thread(target=link.sendall, args=(out,))
    sender.start()
    left = memoryview(into)
    while left:
        left = left[link.recv_into(left):]
    sender.join()
    if rank == "0":  # who says when it is over
        link.sendall(b"1" if last else b"0")
        return last
    return link.recv(1) == b"1"
times, over = [], False
while not over:
    begin = time.perf_counter()
    over = once(len(times) > 2 and sum(times[2:]) > seconds)
    times.append(time.perf_counter() - begin)
print(1e6 * sorted(times[2:])[len(times[2:]) // 2])
"""


def call(*words):
    subprocess.run(words, check=True)


@contextlib.contextmanager
def two_hosts(pair, rate):
    names = [f"diji-bench-{pair}-{host}" for host in "ab"]
    try:
        for name in names:
            call("ip", "netns", "add", name)
            call("ip", "-n", name, "link", "set", "lo", "up")
        call("ip", "link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for number, name in enumerate(names):
            call("ip", "-n", name, "addr", "add", f"10.78.{pair}.{number + 1}/24", "dev", "eth0")
            call("ip", "-n", name, "link", "set", "eth0", "up")
            limit = ["rate", rate, "burst", BURST, "latency", "20ms"]
            call("tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", "tbf", *limit)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


class World:
    def __init__(self, options, names, token):
        self.options, self.names, self.token, self.port = options, names, token, 29000

    def time_us(self, algorithm, size):
        """Of a plan; None is the one that diji takes."""
        options, each = self.options, self.options.ranks
        self.port += 1
        processes = []
        for rank in range(2 * each):
            environment = dict(os.environ, DIJI_RANK=str(rank), DIJI_WORLD_SIZE=str(2 * each), DIJI_TIMEOUT="60")
            environment |= {"DIJI_RENDEZVOUS": f"10.78.{options.pair}.1:{self.port}", "DIJI_TOKEN_FILE": self.token}
            words = [options.diji, "bench", "collective", "all_reduce", "--bytes", str(size)]
            words += ["--algorithm", algorithm] if algorithm else []
            words += ["--seconds", str(options.seconds), "--warmup", "2", "--json"]
            command = ["ip", "netns", "exec", self.names[rank // each], *words]
            output = subprocess.PIPE if rank == 0 else subprocess.DEVNULL
            processes.append(subprocess.Popen(command, env=environment, stdout=output, text=True))
        said, _ = processes[0].communicate(timeout=300)
        if codes := [code for process in processes if (code := process.wait()) != 0]:
            raise SystemExit(f"{algorithm} of {size} bytes: exit codes {codes}")
        return json.loads(said)["rows"][0]["time_us"]

    def stream_us(self, size):
        options = self.options
        self.port += 1
        words = [f"10.78.{options.pair}.1", str(self.port), str(size), str(options.seconds)]
        processes = [
            subprocess.Popen(
                ["ip", "netns", "exec", name, sys.executable, "-c", STREAM, str(rank), *words],
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank, name in enumerate(self.names)
        ]
        said = [process.communicate(timeout=300)[0] for process in processes]
        if codes := [process.returncode for process in processes if process.returncode]:
            raise SystemExit(f"the raw stream of {size} bytes: exit codes {codes}")
        return float(said[0])


def spread(ratios):
    ratios = sorted(ratios)
    return f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})"


def beside_flat_plans(world, options):
    plans = ("hierarchical", *FLAT)
    print("| bytes | " + " | ".join(f"{plan} us" for plan in plans) + " | best flat / hierarchical |")
    print("|--:|" + "--:|" * len(plans) + "---|")
    for size in map(int, options.sizes.split(",")):
        rounds = [{plan: world.time_us(plan, size) for plan in plans} for _ in range(options.rounds)]
        medians = [f"{statistics.median(times[plan] for times in rounds):.4g}" for plan in plans]
        ratio = spread(min(times[plan] for plan in FLAT) / times["hierarchical"] for times in rounds)
        print(f"| {size} | " + " | ".join(medians) + f" | {ratio} |", flush=True)


def beside_a_stream(world, options):
    print("| bytes | diji us | raw stream us | raw stream / diji | diji MB/s |")
    print("|--:|--:|--:|---|--:|")
    for size in map(int, options.sizes.split(",")):
        rounds = [(world.time_us(None, size), world.stream_us(size)) for _ in range(options.rounds)]
        diji, stream = (statistics.median(times) for times in zip(*rounds))
        ratio = spread(stream / diji for diji, stream in rounds)
        print(f"| {size} | {diji:.4g} | {stream:.4g} | {ratio} | {size / diji:.4g} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--diji", required=True, type=os.path.abspath)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--sizes", default="8,65536,1048576,4194304")
    parser.add_argument("--pair", type=int, default=0, help="another number for each pair that lives at the same time")
    parser.add_argument("--raw", action="store_true", help="beside a raw TCP stream")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, two_hosts(options.pair, options.rate) as names:
        token = pathlib.Path(folder, "token")
        token.touch(0o600)
        token.write_text("of this run\n")
        (beside_a_stream if options.raw else beside_flat_plans)(World(options, names, str(token)), options)


if __name__ == "__main__":
    main()
