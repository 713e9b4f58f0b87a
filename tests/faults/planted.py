#!/usr/bin/env python3
"""One planted fault of each kind, in a copy of the tree: the test that claims to catch it must fail.

    tests/faults/planted.py [--only NAME] [--folder DIR]

Exit code 1 where a fault survives, or a text to be replaced is no longer there.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]


@dataclass
class Fault:
    name: str
    file: str
    old: str
    new: str
    preset: str
    target: str
    test: str  # of doctest: which cases are run


FAULTS = [
    Fault("a leak of 64 bytes a run", "runtime/execution_context.cpp",
          "  options_ = nullptr;\n  if (done) return outputs;",
          "  options_ = nullptr;\n  char* volatile lost = new char[64];\n  (void)lost;\n  if (done) return outputs;",
          "release", "unit_memory", "ten thousand*"),
    Fault("a data race: the pool's lock gone", "device/pool.cpp",
          "    const std::scoped_lock lock(mutex);\n    return take(", "    return take(",
          "tsan", "unit_threads", "*many run one*"),
    Fault("a damaged cache entry is believed", "runtime/compile_cache.cpp",
          "if (checksum_of(body) != checksum)", "if (checksum_of(body) != checksum && body.empty())",
          "release", "unit_runtime", "every cut*"),
    Fault("an allocation that failed is swallowed", "runtime/execution_context.cpp",
          "  if (done) return outputs;", "  if (done || done.error().code == ErrorCode::out_of_memory) return outputs;",
          "release", "unit_runtime", "contexts and runs*"),
    Fault("fusion turns a subtraction round", "passes/fuse.cpp",
          ".inputs = map.of(member.inputs),",
          ".inputs = member.op->name == \"prim.subtract\" ? map.of({member.inputs[1], member.inputs[0]})\n"
          "                                                  : map.of(member.inputs),",
          "release", "unit_runtime", "random graphs run*"),
]


def run(words, folder, **options):
    return subprocess.run(words, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)


def copy_tree(folder):
    """The files that git knows, as they are now; what has not changed keeps its age, so that builds stay small."""
    for name in filter(None, run(["git", "ls-files", "-z"], ROOT).stdout.split("\0")):
        source, copy = ROOT / name, folder / name
        if not source.is_file() or (copy.exists() and copy.read_bytes() == source.read_bytes()):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)


def passes(fault, folder):
    """Whether the fault's test passes on what stands in the folder; a build that fails is None."""
    if run(["scripts/dev", "build", fault.preset, fault.target, "diji_llvm"], folder).returncode != 0:
        return None
    environment = dict(os.environ, TSAN_OPTIONS="halt_on_error=1")
    if fault.preset == "tsan":
        environment["DIJI_CPU_COMPILER"] = "c"
    words = [f"build/{fault.preset}/bin/{fault.target}", f"--test-case={fault.test}"]
    return run(words, folder, env=environment).returncode == 0


def verdict(fault, folder):
    """ "caught", or why not."""
    path = folder / fault.file
    text = path.read_text()
    if text.count(fault.old) != 1:
        return f"the text stands {text.count(fault.old)} times in {fault.file}"
    if not passes(fault, folder):
        return "the test fails without the fault"
    path.write_text(text.replace(fault.old, fault.new))
    try:
        return {True: "SURVIVED", False: "caught", None: "does not build"}[passes(fault, folder)]
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults whose name has this in it")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "planted", help="of the copy")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    copy_tree(arguments.folder)
    survived = 0
    for fault in (fault for fault in FAULTS if arguments.only in fault.name):
        said = verdict(fault, arguments.folder)
        survived += said != "caught"
        print(f"{said:9} {fault.name} ({fault.target}, {fault.preset}: {fault.test})", flush=True)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
