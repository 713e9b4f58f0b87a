#!/usr/bin/env python3
"""Runs every ```sh block of the documents in the top folder, so that what they show works; `sh no-test` is left out.

    tests/docs_blocks.py [--kind WORD] [DOCUMENT...]    all documents by default; what stands in several runs once

A block that wants more than scripts/setup-debian installs has a kind, `sh WORD`: `clusters` runs in tests/cluster,
`torchrun` in scripts/long.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SECONDS_MAX = 300


def blocks(paths, kind):
    """{block: the first "document:line" where it stands}"""
    found = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```sh{kind and ' ' + kind}\n(.*?)^```", text, re.M | re.S):
            line = text.count("\n", 0, match.start()) + 1
            found.setdefault(match[1], f"{path.relative_to(ROOT)}:{line}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", metavar="WORD", default="", help="the blocks of this kind, and no others")
    parser.add_argument("documents", nargs="*", metavar="DOCUMENT", type=pathlib.Path)
    arguments = parser.parse_args()
    documents = [path.resolve() for path in arguments.documents]
    documents = documents or [ROOT / "README.md", *sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    failed = 0
    found = blocks(documents, arguments.kind)
    if arguments.kind and not found:
        parser.error(f"no block is of kind {arguments.kind}")
    for block, place in found.items():
        begin = time.monotonic()
        command = ["bash", "-euo", "pipefail", "-c", block]
        run = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=SECONDS_MAX)  # fmt: skip
        print(f"{'ok    ' if run.returncode == 0 else 'FAILED'} {place} ({time.monotonic() - begin:.1f} s)")
        if run.returncode != 0:
            failed += 1
            print(f"{block}exit {run.returncode}\n{run.stdout.decode(errors='replace')}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
