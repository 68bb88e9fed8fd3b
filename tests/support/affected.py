"""Which tests a change can reach.

The tree says so: which file imports which, which tests send the URLs of an extension, and which have the
name of a module. Anything in doubt reaches everything. This module and ``tools/affected`` need the standard
library only.
"""

import ast
import json
import os
import re
import subprocess
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "tests/seconds.json"
"""What the last full run took, and of which commit it was."""

BESIDE_CORE = ("client", "cmd", "extensions", "placing")
"""The packages that the core can do without. A change of any other reaches everything."""

LISTED = tuple(
    f"{name}.py"
    for name in (
        *("__init__", "commands", "data_migrations", "expiry", "figures", "invariants", "options"),
        *("rules", "tables", "watchers"),
    )
)
"""Files of an extension that the core finds by their names."""

SERVING = ("extension", "handlers", "routes")
"""The modules of an extension by which its URLs lead to all others."""

CHECKER = "placement/cmd/config_check.py"
"""The command that has extensions check their options."""

SHIPPED = "tests/operations/package/"
"""The tests of what is shipped: they look for every file of the package."""

TOPS = ("cmd", "deploy", "direct", "profiling", "routes", "tests", "wsgi")
"""Where the packages are put together: a change of what they import does not reach those who import them."""

FOLDERS = ("benchmarks", "debian", "etc", "examples")
"""A file in one of these folders reaches the tests that name the folder, as in ``"etc"`` and ``/etc/``."""

NAMING = ("tests/", "docs/_tools/")
"""The sources that belong to the tests: what they name is what they try."""

ASKING = (*NAMING, *(f"{folder}/" for folder in FOLDERS), "placement/client/")
"""The sources that send a URL: a test may ask by the client library or by an example."""

EVERY_TEST = "tests/conftest.py"

DOCUMENTATION = "tests/docs/"
"""Its tests read all sources and ask for what the pages show: every change reaches them."""


MODULE = re.compile(r"\b(?:placement|tests|docs|benchmarks|examples)(?:\.\w+)+")
"""A module of this tree, in a text."""

FILE = re.compile(r"(?:^|/)([\w.-]+)$")
"""The name of a file, at the end of a text."""

SETTING_UP = ("placement-api", "placement-manage")
"""The programs with which tests make what they try something else on."""

NOTHING = "(?!)"
"""What finds nothing."""


class Reached(NamedTuple):
    """What is to be tried after a change.

    :param everything: why everything is, or nothing.
    :param tests: otherwise the files of tests that are, each with the first changed file that reaches it.
    """

    everything: str
    tests: dict[str, str]


def recorded(root: Path = ROOT) -> dict[str, Any]:
    """Return what the last full run has written, or nothing."""
    try:
        return dict(json.loads((root / SECONDS).read_text()))
    except FileNotFoundError:
        return {}


def changed_files(root: Path = ROOT) -> list[str] | str:
    """Return what differs from the commit of the last full run, or why nobody can say."""
    commit = recorded(root).get("commit")
    if not commit:
        return "there is no full run to compare with"
    try:
        _git(root, "merge-base", "--is-ancestor", commit, "HEAD")
        # A file that was moved is there under both names.
        found = _git(root, "diff", "--no-renames", "--name-only", "-z", commit)
        found += _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    except (OSError, subprocess.CalledProcessError):
        return f"the commit of the last full run, {commit[:12]}, is none of the past of this one"
    return sorted(set(filter(None, found.split("\0"))))


def head(root: Path = ROOT) -> str:
    """Return the commit of this checkout, or nothing: an archive has none."""
    try:
        return _git(root, "rev-parse", "HEAD").strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(root: Path, *words: str) -> str:
    # An archive that was unpacked inside another repository has no past of its own.
    environ = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    command = ["git", "-C", root, *words]
    return subprocess.run(command, capture_output=True, check=True, text=True, env=environ).stdout


def reached(changed: Iterable[str], tree: "Tree") -> Reached:
    """Return what files that differ can reach."""
    tests: dict[str, str] = {}
    for path in changed:
        found = tree.reached_by(path)
        if isinstance(found, str):
            return Reached(found, {})
        for test in sorted(found):
            tests.setdefault(test, path)
    for test in sorted(tree.named(DOCUMENTATION)):
        tests.setdefault(test, "any change")
    return Reached("", tests)


def main() -> None:
    """Print what the changes since the last full run reach, and what they leave out."""
    changed, tree = changed_files(), Tree()
    found = Reached(changed, {}) if isinstance(changed, str) else reached(changed, tree)
    if found.everything:
        print(f"Everything is tried: {found.everything}.")
        return
    print(
        f"{len(changed)} files differ from the last full run's commit, {recorded()['commit'][:12]}."
    )
    for test, why in sorted(found.tests.items()):
        print(f"tried     {test}: {why}")
    for folder, files in sorted(left_out(found, tree).items()):
        print(f"left out  {folder}: nothing that differs reaches {', '.join(files)}")


def left_out(found: Reached, tree: "Tree") -> dict[str, list[str]]:
    """Return the files of tests that a change does not reach, by folder."""
    folders: dict[str, list[str]] = {}
    for test in sorted(tree.tests - found.tests.keys()):
        folders.setdefault(str(Path(test).parent), []).append(Path(test).name)
    reached_folders = {str(Path(test).parent) for test in found.tests}
    return {
        folder: files if folder in reached_folders else [f"any of its {len(files)} files"]
        for folder, files in folders.items()
    }


class Tree:
    """The sources, and what they say of each other."""

    def __init__(self, root: Path = ROOT) -> None:
        self._root = root
        self._sources = {
            str(path.relative_to(root)): path.read_text()
            for folder in ("placement", "tests", "docs/_tools", "benchmarks", "etc", "examples")
            for suffix in ("py", "yaml", "yml")
            for path in (root / folder).rglob(f"*.{suffix}")
            if "node_modules" not in path.parts
        }
        self._python = {path: text for path, text in self._sources.items() if path.endswith(".py")}
        self._naming = cache(self._find_naming)
        self.tests = {path for path in self._python if Path(path).name.startswith("test_")}

    def reached_by(self, path: str) -> set[str] | str:
        """Return the tests that a changed file reaches, or why it reaches all."""
        folder, _, rest = path.partition("/")
        if path == SECONDS:
            return set()
        if folder == "placement":
            return self._by_package(path, rest.partition("/")[0])
        if folder == "tests":
            return self._by_test(path)
        if folder in FOLDERS:
            return self._by_name(path, self._of_folder(folder))
        if folder == "docs" or path.endswith(".rst"):
            return self._by_name(path, rf"\b{re.escape(Path(path).name)}\b")
        return f"{path} can reach anything"

    def named(self, name: str) -> set[str]:
        """Return the tests whose paths begin like this; all suites in YAML are run by one test."""
        if name.startswith("tests/gabbits/"):
            name = "tests/gabbits/test_gabbi.py"
        return {test for test in self.tests if test.startswith(name)}

    def _by_package(self, path: str, package: str) -> set[str] | str:
        """The tests that import what imports the file, send its URLs, start its programs or have its name."""
        if package not in BESIDE_CORE:
            return f"{path} is of the core"
        if not (self._root / path).exists():
            return f"{path} is gone"
        if package == "extensions" and Path(path).name in LISTED:
            return f"{path} is read by the core"
        users = self._users(path)
        for each in sorted(users):
            is_core = each.startswith("placement/") and _package(each) not in (*BESIDE_CORE, *TOPS)
            if is_core or (_package(each) == "extensions" and Path(each).name in LISTED):
                return f"{path} reaches the core by {each}"
        askers = self._importers(self._naming(self._urls(users), ASKING))
        used = users | {each for each in askers if _package(each) == "client"}
        starters = self._importers(self._naming(self._programs(users)) | self._naming(self._commands(used)))
        # A module that sets every option sets none in particular.
        setters = self._naming(self._options(users)) & self.tests
        reaching = users | askers | starters | setters | self._runners(users | askers)
        return self._tests(reaching) | self.named_after(used | self._checkers(path))

    def named_after(self, paths: set[str]) -> set[str]:
        """Return the tests that are named after these files of the service."""
        return set().union(*map(self._named_after, paths))

    def _named_after(self, path: str) -> set[str]:
        """Return the tests of a module's layer that have its name, its package's, or that of the layer.

        An extension is one thing. A file that is no module may be left out of what is shipped.
        """
        top, *folders, _ = Path(path).parts
        if top != "placement" or not folders:
            return set()
        layer, *packages = folders
        found = [] if path.endswith(".py") else [SHIPPED]
        if layer == "extensions":
            # The explorer has a folder of its own.
            found += [f"tests/{folder}{packages[0]}/" for folder in ("extensions/", "") if packages]
        elif not found:
            word = packages[0] if packages else Path(path).stem
            found = [f"tests/{layer}/test_{name}" for name in (f"{word}.py", f"{word}_", f"{layer}_")]
        return set().union(*map(self.named, found))

    def _by_test(self, path: str) -> set[str] | str:
        if path.startswith("tests/gabbits/"):
            return self.named(path)
        folder, name = Path(path).parent, Path(path).name
        if not path.endswith(".py"):
            beside, readers = self.named(f"{folder}/"), self._imported_by.get(name, set())
            # Of a folder of data the name may be all that is written out.
            if not beside:
                readers = readers | self._naming(self._of_folder(folder.name))
            return beside | self._tests(self._importers(readers))
        if path not in self._python and not name.startswith("test_"):
            return f"{path} is gone"
        users = self._users(path)
        return f"{path} is of every test" if EVERY_TEST in users else self._tests(users)

    def _by_name(self, path: str, pattern: str) -> set[str]:
        return self._tests(self._importers(self._naming(pattern) | {path}))

    @staticmethod
    def _of_folder(name: str) -> str:
        """Return what finds the name of a folder, as in ``"etc"`` and ``/etc/``."""
        return rf"""["'/]{re.escape(name)}["'/]"""

    def _users(self, path: str) -> set[str]:
        """Return the file and all that import it; what nothing imports is read or started by its name."""
        users, name = self._importers({path}), Path(path).name
        if len(users) > 1 or name == "conftest.py" or name.startswith("test_"):
            return users
        # A page of the explorer is shown by the service, which does not change with it.
        readers = {
            each
            for each in self._imported_by.get(name, set())
            if _package(each) in ("", _package(path))
        }
        return self._importers({path} | readers)

    def _tests(self, users: set[str]) -> set[str]:
        """Return which of these files are tests, and the tests of which one is the conftest.py.

        But for that of all tests: it has what several need, and each of these names what it asks.
        """
        found = [Path(each) for each in users - {EVERY_TEST} if Path(each).name == "conftest.py"]
        folders = [path.parent for path in found]
        return (users & self.tests).union(*(self.named(f"{folder}/") for folder in folders))

    def _find_naming(self, pattern: str, where: tuple[str, ...] = NAMING) -> set[str]:
        """Return what has a text, and belongs to the tests; suites in YAML are run by a test."""
        found = {
            path
            for path, text in self._sources.items()
            if path.startswith(where) and re.search(pattern, text)
        }
        suites = {path for path in found if path.endswith(".yaml")}
        return (found - suites).union(*map(self.named, suites))

    def _urls(self, users: set[str]) -> str:
        """Return what finds the URLs that lead to these files."""
        urls = [
            url
            for path, page in self._python.items()
            if path.startswith("placement/extensions/") and path.endswith("/routes.py")
            if users & {str(Path(path).with_name(f"{name}.py")) for name in SERVING}
            for url in re.findall(r'^ +"(/-/[a-z-]+)', page, re.M)
        ]
        page = "placement/extensions/explorer/"
        urls += ["/-/explorer"] if any(each.startswith(page) for each in users) else []
        # The client knows the groups' paths by their beginning, and asks for none there.
        return rf"(?:{'|'.join(urls)})(?!/\"\n)" if urls else NOTHING

    def _programs(self, users: set[str]) -> str:
        """Return what finds the names of the programs that begin in these files.

        ``SETTING_UP`` is named by most tests that have a database: those of the command have its name.
        """
        table = self._python["placement/cmd/completion.py"]
        names = [
            name
            for name, module in re.findall(r'^ +"(placement-[a-z-]+)": "(\w+)"', table, re.M)
            if f"placement/cmd/{module}.py" in users and name not in SETTING_UP
        ]
        return rf"\b({'|'.join(names)})\b" if names else NOTHING

    def _commands(self, users: set[str]) -> str:
        """Return what finds the words of the commands of ``openstack`` that are in these files."""
        osc = [_module(each) for each in users if each.startswith("placement/client/osc/")]
        if not osc:
            return NOTHING
        lines = rf"^    (\w+) = (?:{'|'.join(map(re.escape, osc))}):"
        names = re.findall(lines, (self._root / "setup.cfg").read_text(), re.M)
        words = ["openstack.placement.v1", *(name.replace("_", " ") for name in names)]
        return rf"\b(?:{'|'.join(map(re.escape, words))})\b"

    def _options(self, users: set[str]) -> str:
        """Return what finds a test that sets an option of the extensions that these files are of."""
        tables = {"/".join((*Path(each).parts[:3], "options.py")) for each in users}
        names = {
            name
            for each in tables
            if each.startswith("placement/extensions/")
            for name in re.findall(r'Opt\(\s*"(\w+)"', self._python.get(each, ""))
        }
        return rf"\binsight__(?:{'|'.join(sorted(names))})\b" if names else NOTHING

    def _checkers(self, path: str) -> set[str]:
        """Return the command that checks the options of the extension that a file is of, if it has any."""
        extension = "/".join((*Path(path).parts[:3], "extension.py"))
        return {CHECKER} if "check_options=" in self._python.get(extension, "") else set()

    def _runners(self, users: set[str]) -> set[str]:
        """Return what names the folder of one of these files: examples are run, and not imported."""
        beside = tuple(f"{folder}/" for folder in FOLDERS)
        folders = {Path(each).parent.name for each in users if each.startswith(beside)}
        return {
            user
            for each in folders
            for user in self._importers(self._naming(self._of_folder(each)))
        }

    def importers_of(self, path: str) -> set[str]:
        """Return the files that import a file themselves."""
        return self._imported_by.get(_module(path), set())

    def _importers(self, paths: set[str]) -> set[str]:
        """Return the files and all that import them, but not what imports a place of ``TOPS`` that does."""
        own = {_package(each) for each in paths}
        found, todo = set(paths), list(paths)
        while todo:
            for each in self._imported_by.get(_module(todo.pop()), set()) - found:
                found.add(each)
                if _package(each) not in TOPS or _package(each) in own:
                    todo.append(each)
        return found

    @cached_property
    def _imported_by(self) -> dict[str, set[str]]:
        """Return who imports each module or names each file, in functions too.

        A module that is imported imports its packages, and who walks a package imports all of it. A module
        that has been removed is there too.
        """
        modules = {_module(path) for path in self._python}
        found: dict[str, set[str]] = {}
        for path, text in self._python.items():
            tree = ast.parse(text)
            names = _names(tree)
            walked = tuple(f"{name}." for name in _walked(tree, names & modules))
            names |= {each for each in modules if each.startswith(walked)}
            names |= {package for each in (*names, _module(path)) for package in _packages(each)}
            for name in names:
                found.setdefault(name, set()).add(path)
        return found


def _package(path: str) -> str:
    """Return the package of the service that a file is of, or nothing."""
    top, _, rest = path.partition("/")
    return rest.partition("/")[0].removesuffix(".py") if top == "placement" else ""


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _packages(module: str) -> list[str]:
    """Return the packages that a module is in."""
    parts = module.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def _names(tree: ast.AST) -> set[str]:
    """Return what may be modules and files that a source imports, starts or reads.

    A text may be a command or a program, and end in the name of a file; docstrings are neither.
    """
    found = set()
    told = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and node not in told and isinstance(node.value, str):
            found |= {*MODULE.findall(node.value), *FILE.findall(node.value)}
    return found


def _walked(tree: ast.AST, modules: set[str]) -> set[str]:
    """Return of which of these packages, all that a source names, it imports what lies on their path."""
    nodes = list(ast.walk(tree))
    if not any(isinstance(node, ast.Import) and node.names[0].name == "pkgutil" for node in nodes):
        return set()
    asked = {
        f".{ast.unparse(node.value)}"
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr == "__path__"
    }
    # Where nothing says which, any.
    return {name for name in modules if f".{name}".endswith(tuple(asked))} or modules
