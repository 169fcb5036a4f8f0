"""The style that a machine can check, checked by a machine.

A rule reads one parsed module and yields `(line, what to do)`. `RULES` are for all of src, `PURE_RULES` for
the packages that must replay byte for byte: no socket, clock, file, thread or global random generator.
"""

import ast
import functools
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "gossamer"
PURE = (
    "core",
    "wire",
    "dissemination",
    "flow",
    "detection",
    "repair",
    "logging",
    "buffering",
    "membership",
    "ordering",
    "kernel",
    "pubsub",
    "stack.py",
    "rungs.py",
    "presets.py",
)

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

IMPURE_MODULE = re.compile(
    r"(asyncio|concurrent|datetime|importlib|multiprocessing|os|pathlib|sched|secrets|select|selectors"
    r"|shutil|signal|socket|ssl|subprocess|tempfile|threading|time|uuid)(\.|$)"
)
UNFINISHED = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b")
# Written in halves, so that this file passes its own test.
REGISTRY = re.compile(
    r"pypi" + r"\.org|files\.python" + r"hosted\.org|registry\.npm" + r"js\.org|deb\.deb" + r"ian\.org"
)
WORKPLACE = re.compile(
    r"(?<![\w.])/wo" + r"rk/|\bsha" + r"red/[A-Z]+\.md|\bissues sh" + r"ow\b|/opt/(wheels|py" + r"pi)"
)
CHANGING = {"add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
SKIPPED_DIRECTORIES = {".git", ".venv", ".hypothesis", "build", "dist", "runs", "__pycache__"}

Finding = tuple[int, str]
Rule = Callable[[ast.Module], Iterator[Finding]]


# Rules for every module of src


def has_docstring(tree: ast.Module) -> Iterator[Finding]:
    if not ast.get_docstring(tree):
        yield 1, "open the module with a docstring: the few sentences one must know"


def functions_are_short(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield node.lineno, f"{node.name}() has {lines} lines, at most {FUNCTION_LINES_MAX}: split it"


def excepts_name_an_error(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.type is None:
            yield node.lineno, "bare except: name the error that is expected here"


def does_not_print(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno, "print() belongs into cli: return the value, or emit an effect"


# Rules for the pure packages


def imports_nothing_impure(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in absolute_names(node):
                if IMPURE_MODULE.match(name):
                    yield node.lineno, f"a pure package may not import {name}: take the value as an argument"


def absolute_names(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if node.module and not node.level else []


def opens_no_file(tree: ast.Module) -> Iterator[Finding]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "open":
            yield node.lineno, "a pure package may not open a file: emit an effect"


def draws_from_a_given_generator(tree: ast.Module) -> Iterator[Finding]:
    advice = "take a seeded random.Random at construction"
    aliases: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or alias.name for alias in node.names if alias.name == "random"}
        elif isinstance(node, ast.ImportFrom) and node.module == "random" and node.level == 0:
            for alias in node.names:
                if alias.name != "Random":
                    yield node.lineno, f"random.{alias.name} is global: {advice}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases:
            if node.attr != "Random":
                yield node.lineno, f"random.{node.attr} is global: {advice}"
        elif isinstance(node, ast.Call) and ast.unparse(node) in ("Random()", "random.Random()"):
            yield node.lineno, f"Random() seeds itself from the system: {advice}"


def iterates_no_set(tree: ast.Module) -> Iterator[Finding]:
    """A heuristic: sees only sets made on the spot, bare or inside list(), tuple(), iter(), enumerate()."""
    for node in ast.walk(tree):
        iterated: list[ast.expr] = []
        if isinstance(node, ast.For | ast.comprehension):
            iterated = [node.iter]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            iterated = node.args[:1] if node.func.id in ("list", "tuple", "iter", "enumerate") else []
        for expression in iterated:
            if is_set(expression):
                yield expression.lineno, "a set has no order that replays: sort it, or use dict.fromkeys()"


def is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    return isinstance(node, ast.Set | ast.SetComp)


def keeps_no_global_state(tree: ast.Module) -> Iterator[Finding]:
    """A heuristic: `global`, and tables of the module that its functions change."""
    advice = "a pure package has no global state: keep it in an object, or in `Ladder.siblings`"
    tables = {target.id for node in tree.body for target in targets_of(node) if isinstance(target, ast.Name)}
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if isinstance(node, ast.Global) or changed_by(node) in tables:
                yield node.lineno, advice


def targets_of(node: ast.stmt) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    return [node.target] if isinstance(node, ast.AnnAssign) else []


def changed_by(node: ast.AST) -> str:
    """The name of what an item is put into, or a changing method is called of."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store | ast.Del):
        return node.value.id if isinstance(node.value, ast.Name) else ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name):
        return node.func.value.id if node.func.attr in CHANGING else ""
    return ""


RULES: list[Rule] = [has_docstring, functions_are_short, excepts_name_an_error, does_not_print]
PURE_RULES: list[Rule] = [
    imports_nothing_impure,
    opens_no_file,
    draws_from_a_given_generator,
    iterates_no_set,
    keeps_no_global_state,
]


# What the rules are applied to


@functools.cache
def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8"), str(path)) for path in sorted(PACKAGE.rglob("*.py"))}


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0]


@functools.cache
def texts() -> dict[Path, str]:
    """Every text file that is, or is about to be, tracked."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        paths = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):  # an unpacked archive, or no git
        paths = [p for p in ROOT.rglob("*") if not SKIPPED_DIRECTORIES & set(p.relative_to(ROOT).parts)]
    found = {}
    for path in sorted(paths):
        content = path.read_bytes() if path.is_file() else b"\0"
        if b"\0" not in content[:8192]:
            found[path] = content.decode("utf-8", "replace")
    return found


def at(path: Path, line: int, advice: str) -> str:
    return f"{path.relative_to(ROOT)}:{line}: {advice}"


def matches(pattern: re.Pattern[str], advice: str, suffix: str = "") -> list[str]:
    return [
        at(path, number, f"{match[0]!r}: {advice}")
        for path, text in texts().items()
        if path.name.endswith(suffix) and pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def require_none(findings: list[str]) -> None:
    if findings:
        pytest.fail("\n".join(findings), pytrace=False)


# The tests


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_every_module(rule: Rule) -> None:
    exempt = {"cli"} if rule is does_not_print else set()

    require_none(
        [
            at(path, line, advice)
            for path, tree in modules().items()
            if package_of(path) not in exempt
            for line, advice in rule(tree)
        ]
    )


@pytest.mark.parametrize("rule", PURE_RULES, ids=lambda rule: rule.__name__)
def test_every_pure_module(rule: Rule) -> None:
    require_none(
        [
            at(path, line, advice)
            for path, tree in modules().items()
            if package_of(path) in PURE
            for line, advice in rule(tree)
        ]
    )


def test_modules_are_short() -> None:
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in modules()}

    require_none(
        [
            at(path, MODULE_LINES_MAX, f"{lines} lines, at most {MODULE_LINES_MAX}: split it by concept")
            for path, lines in lengths.items()
            if lines > MODULE_LINES_MAX
        ]
    )


def test_nothing_is_left_unfinished() -> None:
    require_none(matches(UNFINISHED, "finish it, or open an issue", suffix=".py"))


def test_no_file_names_a_package_registry() -> None:
    require_none(matches(REGISTRY, "leave the registry to the settings of pip and apt"))


def test_no_file_speaks_of_the_workplace() -> None:
    require_none(matches(WORKPLACE, "means nothing to a reader elsewhere: say it without"))


def test_constraints_are_names_and_versions() -> None:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()

    require_none(
        [
            at(ROOT / "constraints.txt", number, f"{line!r}: write name==version")
            for number, line in enumerate(lines, 1)
            if not re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.+!]*", line)
        ]
    )


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        (has_docstring, "x = 1"),
        (functions_are_short, "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX),
        (excepts_name_an_error, "try: f()\nexcept: pass"),
        (does_not_print, "print(1)"),
        (imports_nothing_impure, "import time"),
        (imports_nothing_impure, "from os.path import join"),
        (opens_no_file, "open('x')"),
        (draws_from_a_given_generator, "import random\nrandom.choice([1])"),
        (draws_from_a_given_generator, "import random as r\nr.random()"),
        (draws_from_a_given_generator, "from random import shuffle"),
        (draws_from_a_given_generator, "import random\nrandom.Random()"),
        (iterates_no_set, "for x in {1, 2}: f(x)"),
        (iterates_no_set, "y = [x for x in set(z)]"),
        (iterates_no_set, "y = list({x for x in z})"),
        (keeps_no_global_state, "def f():\n    global x\n    x = 1"),
        (keeps_no_global_state, "x = {}\ndef f():\n    x[1] = 2"),
        (keeps_no_global_state, "x: list = []\ndef f():\n    x.append(2)"),
    ],
)
def test_each_rule_catches_what_it_forbids(rule: Rule, code: str) -> None:
    assert len(list(rule(ast.parse(code)))) == 1


def test_the_rules_allow_what_they_advise() -> None:
    code = '''
"""A module."""
import random
from random import Random
from . import time

def pick(rng: random.Random, names: set[str]) -> str:
    for name in sorted(set(names)):
        if name in {"a", "b"}:
            return name
    return rng.choice(sorted(names)) if names else str(Random(7).random())
'''
    tree = ast.parse(code)

    assert [finding for rule in RULES + PURE_RULES for finding in rule(tree)] == []
