#!/usr/bin/env python3
"""Checks what a compiler cannot: the layers of docs/ARCHITECTURE.md, budgets, dead files, docs that are true.

    tests/tidy.py [--with-binary build/release/bin/diji [--write]]    the tree; 1 when there is a finding
    tests/tidy.py --self-test                                         every rule, on a planted fault

With a binary, generated pages are compared with what it prints now, or written again.
"""

import argparse
import ast
import functools
import os
import pathlib
import re
import subprocess
import sys

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
COLUMNS_MAX = 110  # as clang-format breaks lines
OTHER_COLUMNS_MAX = 120  # scripts and build files
README_LINES_MAX = 30
OTHER_LINES_MAX = {"include/diji/device_plugin.h": 300, "plugins/mock/": 250}  # a file, or a folder's sources
C_FAMILY = (".cpp", ".h", ".c")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|farm|root|home/\w+)/|/tmp/ba[s]h_")
BANNED_IN_CODE = {
    r"std::cout\b": "std::cout; print with fmt",
    r"\busing namespace\b": "using namespace",
    r"\bthrow\b": "throw; errors are values (base/error.h)",
}
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b")
NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"([^()\s\\]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"""
    r"|^[ \t]*#(?:\\.|[^\\\n])*",
    re.S | re.M,
)
SKIPPED_FOLDERS = {"build", "__pycache__"}  # and hidden ones; only where git is not there to tell


class Tree:
    """The files of a checkout, read once."""

    def __init__(self, root, binary=None):
        self.root = pathlib.Path(root)
        self.binary = binary
        self.files = sorted(self._list())

    def _list(self):
        if (self.root / ".git").exists():
            command = ["git", "-C", self.root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
            names = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.decode().split("\0")
            return [name for name in names if name and (self.root / name).is_file()]
        names = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith(".")]
            names += [(pathlib.Path(folder, f)).relative_to(self.root).as_posix() for f in files]
        return names

    def ending(self, *endings):
        return [f for f in self.files if f.endswith(endings)]

    @functools.cache
    def text(self, path):
        return (self.root / path).read_text(encoding="utf-8", errors="replace")

    @functools.cache
    def code(self, path):
        """C or C++ with comments, literals and preprocessor lines blanked; offsets stay."""
        return NOT_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), self.text(path))

    @functools.cached_property
    def floors(self):
        """{"base": 0, "plugins/cpu": 1, ...} from the table of docs/ARCHITECTURE.md."""
        floors = {}
        for row in re.finditer(r"^\| *(\d+) *\|([^|]*)\|", self.text("docs/ARCHITECTURE.md"), re.M):
            for name in re.findall(r"`([^`]+)/`", row[2]):
                before, _, inner = name.partition("{")
                for part in inner.rstrip("}").split(",") if inner else [""]:
                    floors[before + part.strip()] = int(row[1])
        return floors

    def room(self, path):
        """The folder of the table that the path lies in, or None."""
        while "/" in path:
            path = path.rpartition("/")[0]
            if path in self.floors:
                return path
        return None


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def reaches(tree, room, other):
    return room == other or tree.floors[other] < tree.floors[room]


# ---- the rules: each yields (path, line, sentence) ----


def layers(tree):
    """An include goes to a strictly lower floor or stays in its folder; examples see only the public headers."""
    for room in tree.floors:
        if not any(f.startswith(room + "/") and not f.endswith(".md") for f in tree.files):
            yield "docs/ARCHITECTURE.md", 1, f"the table names {room}/, in which there is nothing"
    for path in tree.ending(*C_FAMILY):
        room = tree.room(path)
        if room is None:
            yield path, 1, "lies in no folder of the table in docs/ARCHITECTURE.md"
            continue
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', tree.text(path), re.M):
            line, target = line_of(tree.text(path), match.start()), match[1]
            if target.startswith("diji/"):
                target = "include/" + target
            other = tree.room(target)
            if other is None or not (tree.root / target).is_file():
                yield path, line, f'"{match[1]}" is no header of this tree (write it from the top folder)'
            elif not reaches(tree, room, other):
                floors = f"floor {tree.floors[room]} includes {other}/ on floor {tree.floors[other]}"
                yield path, line, f"{room}/ on {floors}"
            elif room == "examples" and not other.startswith("include"):
                yield path, line, f"an example includes {match[1]}: public headers only"


def links(tree):
    """A CMake target links only what its folder may include."""
    pattern = r"(?:diji_library\(\s*NAME\s+|add_(?:library|executable)\(\s*)([\w.-]+)"
    owner = {}
    for path in tree.ending("CMakeLists.txt"):
        for match in re.finditer(pattern, tree.text(path)):
            name = match[1] if "add_" in match[0] else "diji_" + match[1]
            owner[name] = tree.room(path)
    for path in tree.ending("CMakeLists.txt"):
        room = tree.room(path)
        for match in re.finditer(r"\bdiji_\w+", re.sub(r"#.*", "", tree.text(path)) if room else ""):
            other = owner.get(match[0])
            if other and not reaches(tree, room, other):
                yield path, line_of(tree.text(path), match.start()), f"{room}/ links {match[0]} of {other}/"


def functions(code):
    """(offset of the head, offset of the closing brace) of every function outside a function or an initialiser."""
    stack, head_start = [], 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match[0] == "{":
            labels = [m.end() for m in re.finditer(r"\b(?:public|private|protected)\s*:", code[head_start:at])]
            start = head_start + max(labels, default=0)
            kind = "inner" if stack and stack[-1][0] != "scope" else kind_of(code[start:at])
            stack.append((kind, start))
            if kind == "scope":
                head_start = at + 1
        elif match[0] == "}" and stack:
            kind, start = stack.pop()
            if kind == "function":
                yield start + len(code[start:at]) - len(code[start:at].lstrip()), at
            if kind in ("scope", "function"):
                head_start = at + 1
        elif not stack or stack[-1][0] == "scope":
            head_start = at + 1


def kind_of(head):
    """What a brace opens, from the text since the statement began: a scope, a function or an initialiser."""
    if re.search(r"\bnamespace\b|\bextern\s*$", head):
        return "scope"
    if not head or not head[-1].isspace() or head.rstrip().endswith(("=", ",", "(")):
        return "inner"
    plain = re.sub(r"\balignas\s*\([^)]*\)|\btemplate\s*<.*?>\s*(?=struct|class|union)", "", head, flags=re.S)
    is_type = re.match(r"\s*(?:typedef\s+)?(?:struct|class|union|enum)\b", plain) and "(" not in plain
    return "scope" if is_type or "(" not in plain else "function"


def budgets(tree):
    """Nothing grows past what one reads at a sitting."""
    for path in tree.ending(*C_FAMILY, ".py", ".cmake", "CMakeLists.txt"):
        text = tree.text(path)
        lines = text.splitlines()
        if len(lines) > FILE_LINES_MAX:
            yield path, FILE_LINES_MAX, f"{len(lines)} lines; {FILE_LINES_MAX} at most"
        columns = COLUMNS_MAX if path.endswith(C_FAMILY) else OTHER_COLUMNS_MAX
        for number, line in enumerate(lines, 1):
            if len(line) > columns and "https://" not in line:
                yield path, number, f"{len(line)} columns; {columns} at most"
        if path.endswith(".py"):
            nodes = (n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.FunctionDef, ast.Lambda)))
            spans = [(node.lineno, node.end_lineno) for node in nodes]
        else:
            spans = [(line_of(text, a), line_of(text, b)) for a, b in functions(tree.code(path))]
        for first, last in spans if not path.endswith((".cmake", ".txt")) else []:
            if last - first + 1 > FUNCTION_LINES_MAX:
                yield path, first, f"a function of {last - first + 1} lines; {FUNCTION_LINES_MAX} at most"
    for prefix, limit in OTHER_LINES_MAX.items():
        paths = [f for f in tree.ending(*C_FAMILY) if f.startswith(prefix)]
        total = sum(len(tree.text(f).splitlines()) for f in paths)
        if total > limit:
            yield paths[0], 1, f"{prefix} has {total} lines; {limit} at most"


def first_lines(tree):
    """The first line of a source says what the file is for."""
    for path in tree.ending(*C_FAMILY, ".py", ".cmake") + [f for f in tree.files if f.startswith("scripts/")]:
        lines = [line for line in tree.text(path).splitlines()[:2] if not line.startswith("#!")]
        if path.endswith(".md"):
            continue
        if not lines or not re.match(r"(?://|/\*|#|\"\"\")\s*\S+(?:\s+\S+){2}", lines[0]):
            yield path, 1, "the first line is no comment that says what the file is for"


def include_guards(tree):
    """#pragma once; the public C headers have a guard of their own."""
    for path in tree.ending(".h"):
        guard = r"^#ifndef (\w+)\n#define \1$" if path.startswith("include/") else r"^#pragma once$"
        if not re.search(guard, tree.text(path), re.M):
            yield path, 1, "no include guard (public C headers: #ifndef; others: #pragma once)"


def banned_words(tree):
    """No paths of one machine, no unfinished marks, none of the constructs the house does without."""
    for path in tree.files:
        for pattern, what in ((MACHINE_PATH, "a path of one machine"), (UNFINISHED, "an unfinished mark")):
            for match in pattern.finditer(tree.text(path)):
                yield path, line_of(tree.text(path), match.start()), f"{what}: {match[0]}"
    for path in tree.ending(*C_FAMILY):
        for pattern, what in BANNED_IN_CODE.items():
            for match in re.finditer(pattern, tree.code(path)):
                yield path, line_of(tree.text(path), match.start()), f"banned: {what}"


def dead_files(tree):
    """Every source is built, every header included, every script and Python file used by another file."""
    unit_folders = set()
    for path in tree.ending("CMakeLists.txt"):
        unit_folders |= set(re.findall(r"diji_unit_test\(\s*([\w/]+)", tree.text(path)))
    for path in tree.ending(".cpp", ".c"):
        folder, _, name = path.rpartition("/")
        cmake = [f for f in tree.ending("CMakeLists.txt") if path.startswith(f.removesuffix("CMakeLists.txt"))]
        built = any(re.search(rf"(?<![\w.]){re.escape(name)}\b", tree.text(f)) for f in cmake)
        if not built and folder.removeprefix("tests/unit/") not in unit_folders:
            yield path, 1, "no CMakeLists.txt builds it"
    used_by = {path: tree.text(path) for path in tree.files}
    for path in tree.ending(".h"):
        include = f'"{path.removeprefix("include/")}"'
        if not any(include in text for other, text in used_by.items() if other != path):
            yield path, 1, "nothing includes it"
    scripts = [f for f in tree.files if f.startswith("scripts/") and not f.endswith(".md")]
    for path in tree.ending(".py", "/requirements.txt") + scripts:
        name = re.compile(rf"\b{re.escape(pathlib.PurePath(path).name.removesuffix('.py'))}\b")
        if not any(name.search(text) for other, text in used_by.items() if other != path):
            yield path, 1, "no other file names it"


def documents(tree):
    """Every document is linked from another, and every relative link leads somewhere."""
    reached = {"README.md", "AGENTS.md"}
    for path in tree.ending(".md"):
        for match in re.finditer(r"\]\((?!\w+:)([^)#\s]+)(?:#[^)]*)?\)", tree.text(path)):
            target = os.path.normpath(os.path.join(os.path.dirname(path), match[1]))
            if not (tree.root / target).exists():
                yield path, line_of(tree.text(path), match.start()), f"a link to {target}, which is not there"
            elif target != path:
                reached.add(target)
    for path in tree.ending(".md"):
        if path not in reached:
            yield path, 1, "no other document links to it"


def readmes(tree):
    """Every folder of the house has a README of at most 30 lines."""
    for folder in sorted({room.split("/")[0] for room in tree.floors}):
        if f"{folder}/README.md" not in tree.files:
            yield f"{folder}/README.md", 1, "is missing"
    for path in tree.ending("/README.md"):
        count = len(tree.text(path).splitlines())
        if count > README_LINES_MAX:
            yield path, README_LINES_MAX, f"{count} lines; {README_LINES_MAX} at most"


def generated_pages(tree, write=False):
    """What docs/reference/ and other generated pages say is what the command named in their first line prints."""
    for path in tree.ending(".md"):
        first = tree.text(path).partition("\n")[0]
        if not path.startswith("docs/reference/") and not first.startswith("<!-- generated by"):
            continue
        command = r"<!-- generated by `(diji|scripts/[\w-]+)([\w -]*)`; scripts/dev generate -->"
        match = re.fullmatch(command, first)
        program = match and (tree.binary if match[1] == "diji" else tree.root / match[1])
        if not match:
            yield path, 1, "the first line does not say which command generates the page"
        elif program:
            run = subprocess.run([program, *match[2].split()], capture_output=True, text=True)
            fresh = f"{first}\n{run.stdout}"
            if run.returncode != 0:
                yield path, 1, f"{match[1]}{match[2]} ends with {run.returncode}: {run.stderr.strip()}"
            elif write:
                (tree.root / path).write_text(fresh)
            elif fresh != tree.text(path):
                yield path, 1, "is not what the command prints now; run scripts/dev generate"


def oracles(tree):
    """Every operator record names an outside oracle, and that oracle is there and passes."""
    nodes = "tests/oracle/onnx_nodes.txt"
    passing = re.findall(r"^(\S+) pass$", tree.text(nodes), re.M) if nodes in tree.files else []
    for path in [f for f in tree.ending(".cpp") if f.startswith("ops/")]:
        text = tree.text(path)
        for match in re.finditer(r"\bOpDef\s*(\{)(?=\s*[.\"])|\b\w+_record(\()(?=\s*\")", text):
            line = line_of(text, match.start())
            record = bracketed(text, match.end() - 1)
            name = re.search(r"[({.]\s*(?:name\s*=\s*)?\"([^\"]*)\"", record)
            kind, oracle = (re.findall(r"\"(onnx-node|file):([^\"]+)\"", record) or [("", "")])[0]
            if kind == "onnx-node" and not any(case.startswith(oracle) for case in passing):
                yield path, line, f"{name[1]}: no passing case of {nodes} begins with {oracle}"
            elif kind == "" or kind == "file" and f"tests/oracle/{oracle}" not in tree.files:
                wanted = "onnx-node:PREFIX or file:NAME in tests/oracle/"
                yield path, line, f"{name[1]}: names no oracle that is there ({wanted})"


def bracketed(text, at):
    """The text from the bracket at `at` to the one that closes it."""
    blanked = re.sub(r'"(?:\\.|[^"\\\n])*"', lambda m: re.sub(r"[(){}]", " ", m[0]), text[at:])
    depth = 0
    for match in re.finditer(r"[(){}]", blanked):
        depth += 1 if match[0] in "({" else -1
        if depth == 0:
            return text[at : at + match.end()]
    return text[at:]


def decisions(tree):
    """Decisions are numbered without gaps and carry their number in the title."""
    paths = [f for f in tree.files if f.startswith("docs/decisions/")]
    for number, path in enumerate(paths, 1):
        if not re.fullmatch(rf"docs/decisions/{number:04}-[a-z0-9-]+\.md", path):
            yield path, 1, f"the name should begin with {number:04}-"
        elif not tree.text(path).startswith(f"# {number:04} "):
            yield path, 1, f'the title should begin with "# {number:04} "'


def commands(tree):
    """A command of this tree that a document shows exists and can be run."""
    verbs = re.findall(r"^  (\w+)\)", tree.text("scripts/dev"), re.M) if "scripts/dev" in tree.files else []
    for path in tree.ending(".md"):
        for block in re.finditer(r"^```sh[^\n]*\n(.*?)^```", tree.text(path), re.M | re.S):
            for match in re.finditer(r"^(?:\./)?((?:scripts|tests)/[\w.-]+)(?: (\w+))?", block[1], re.M):
                line = line_of(tree.text(path), block.start(1) + match.start())
                if not os.access(tree.root / match[1], os.X_OK):
                    yield path, line, f"{match[1]} is not there or not executable"
                elif match[1] == "scripts/dev" and match[2] not in verbs:
                    yield path, line, f"scripts/dev knows no {match[2]}"


RULES = (layers, links, budgets, first_lines, include_guards, banned_words, dead_files, documents, readmes,
         generated_pages, oracles, decisions, commands)  # fmt: skip


def findings(tree):
    return [(rule.__name__, *finding) for rule in RULES for finding in rule(tree)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--with-binary", metavar="DIJI", type=os.path.abspath)
    parser.add_argument("--write", action="store_true", help="write the generated pages again")
    parser.add_argument("--self-test", action="store_true", help="each rule on a planted fault")
    options = parser.parse_args()
    if options.self_test:
        import tidy_faults

        return tidy_faults.run(sys.modules[__name__])
    tree = Tree(pathlib.Path(__file__).resolve().parent.parent, options.with_binary)
    if options.write:
        found = [("generated_pages", *finding) for finding in generated_pages(tree, write=True)]
    else:
        found = findings(tree)
    for rule, path, line, sentence in found:
        print(f"{path}:{line}: {sentence} [{rule}]")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
