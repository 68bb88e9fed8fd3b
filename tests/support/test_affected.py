"""What a change reaches is tried, and what is left out is named."""

import subprocess
from pathlib import Path

import pytest

from tests.support import affected
from tests.support.affected import Tree, changed_files, reached
from tests.support.processes import require_program

# One process reads the tree, which takes seconds.
pytestmark = pytest.mark.xdist_group("tree")


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


def reached_by(tree: Tree, path: str) -> set[str]:
    found = tree.reached_by(path)
    assert not isinstance(found, str), found
    return found


@pytest.mark.parametrize(
    "path",
    [
        "placement/db/engine.py",
        "placement/objects/allocation.py",
        "placement/search/combine.py",
        "placement/web/request.py",
        "placement/wsgi/api.py",
        "placement/routes.py",
        "placement/newpackage/module.py",
        "placement/extensions/claims/not_there_any_more.py",
        "placement/placing/choose.py",
        "setup.cfg",
        ".ci/run",
        "tools/test",
        "a file nobody knows",
        "tests/conftest.py",
        "tests/__init__.py",
        "tests/support/__init__.py",
        "tests/support/effort.py",
        "tests/support/databases.py",
        "tests/support/browser.py",
        "tests/support/not_there_any_more.py",
    ],
)
def test_the_core_and_what_is_in_doubt_reach_everything(tree: Tree, path: str) -> None:
    assert isinstance(tree.reached_by(path), str)
    assert reached(["docs/index.rst", path], tree).everything


@pytest.mark.parametrize(
    ("path", "tried", "not_tried"),
    [
        (
            "placement/extensions/plans/service.py",
            # Its own suites, its URL in YAML, and proofs that play its requests.
            "extensions/plans/test_plans gabbits/test_gabbi explorer/test_plan"
            " proofs/plans/test_carried_out proofs/promise/test_errors proofs/promise/test_interleavings",
            "objects/test_ledger_model proofs/galera/test_races operations/deploy/test_reload",
        ),
        (
            "placement/extensions/claims/writing.py",
            "extensions/claims/test_claims extensions/plans/test_plans extensions/claims/test_claims_model"
            " proofs/races/test_gang_races proofs/histories/test_histories proofs/year/test_clock"
            " proofs/promise/test_history_errors",
            "client/test_flush placing/test_packing db/test_schema_history web/test_request",
        ),
        (
            "placement/extensions/plans/planning/walk.py",
            "extensions/plans/test_planning extensions/plans/test_plans extensions/plans/test_planning_solver"
            " proofs/promise/test_errors",
            "placing/test_choose extensions/claims/test_claims_model",
        ),
        (
            "placement/extensions/questions/what_if.py",
            "extensions/questions/test_what_if client/test_osc_drain_check explorer/test_capacity"
            " security/test_bounds",
            "search/test_search_scale db/test_database_isolation proofs/faults/test_frozen",
        ),
        # Asked through the client library, the commands of openstack and the examples.
        (
            "placement/extensions/claims/service.py",
            "client/test_claims examples/test_boot_cloud operations/e2e/test_insight_cli",
            "client/test_flush objects/test_picture_memory",
        ),
        (
            "placement/extensions/plans/handlers.py",
            "client/test_plans operations/e2e/test_plan_run",
            "client/test_flush client/test_history",
        ),
        (
            "placement/extensions/history/history.py",
            "client/test_history extensions/history/test_history",
            "search/test_search_scale",
        ),
        ("placement/extensions/feed/lookout.py", "client/test_mirror", "client/test_flush"),
        # Started as a program.
        (
            "placement/client/comparison/survey.py",
            "cmd/test_compare cmd/test_cmd_absence cmd/test_cmd_programs",
            "extensions/claims/test_claims wsgi/test_api_startup",
        ),
        # Read by the module beside it.
        (
            "placement/client/schemas/provider_trees.json",
            "client/test_tree_file cmd/test_tree",
            "client/test_claims extensions/claims/test_claims",
        ),
        # Imported by who walks its package.
        (
            "placement/cmd/audit.py",
            "db/test_statements_supported_sql web/test_error_responses",
            "db/test_database_isolation",
        ),
        (
            "placement/client/osc/text.py",
            "client/test_exceptions_unanswered web/test_error_responses",
            "schemas/test_schemas_agree client/test_flush",
        ),
        (
            "placement/extensions/explorer/page/parts/funnel.js",
            "search/test_filters",
            "search/test_search_scale",
        ),
        (
            "placement/client/report.py",
            "client/test_flush cmd/test_tree proofs/races/test_reshape_races",
            "extensions/claims/test_claims explorer/test_search proofs/promise/test_errors",
        ),
        (
            "placement/extensions/explorer/page/views/plan.js",
            "explorer/test_plan explorer/test_access cmd/test_config_check",
            "extensions/plans/test_plans client/test_plans",
        ),
        (
            "placement/cmd/http_server.py",
            "cmd/test_api cmd/test_http_server operations/deploy/test_stop",
            "search/test_search_scale proofs/promise/test_interleavings",
        ),
        (
            "docs/openapi.json",
            "docs/test_openapi security/test_hostile_bodies",
            "extensions/claims/test_claims",
        ),
        ("docs/_tools/live_pages.py", "docs/test_docs", "extensions/claims/test_claims"),
        ("CHANGES.rst", "docs/test_supported", "extensions/claims/test_claims"),
        ("etc/uwsgi/placement.ini", "operations/deploy/test_servers", "search/test_search_scale"),
        ("examples/claim_eight.py", "examples/test_boot_cloud", "search/test_search_scale"),
        ("tests/search/worlds.py", "search/test_search_against_oracle", "extensions/claims/test_claims"),
        ("tests/search/test_search_scale.py", "search/test_search_scale", "placing/test_packing"),
        (
            "tests/client/conftest.py",
            "client/test_flush client/test_plans",
            "extensions/claims/test_claims",
        ),
        (
            "tests/support/damage.py",
            "db/test_invariants_damage proofs/scrub/test_by_hand",
            "client/test_flush",
        ),
        ("tests/gabbits/plans.yaml", "gabbits/test_gabbi", "extensions/plans/test_plans"),
        # Data, and what is started by its name.
        (
            "tests/search/data/examples.json",
            "handlers/test_allocation_candidate_examples search/test_search_examples",
            "client/test_flush",
        ),
        (
            "tests/extensions/metrics/prometheus/placement.rules.test.yml",
            "extensions/metrics/test_metrics_monitoring",
            "wsgi/test_api_startup",
        ),
        (
            "tests/operations/constraints/upper-constraints-2025.1.txt",
            "operations/package/test_constraints",
            "wsgi/test_api_startup",
        ),
        (
            "tests/support/library_server.py",
            "operations/deploy/test_servers",
            "extensions/claims/test_claims",
        ),
        # Whoever imports a module imports its packages.
        (
            "tests/search/__init__.py",
            "search/test_search_scale extensions/plans/test_planning",
            "client/test_flush",
        ),
        (
            "tests/wsgi/defaults.json",
            "wsgi/test_api_startup",
            "client/test_flush",
        ),
    ],
)
def test_a_change_reaches_what_meets_it_and_no_more(
    tree: Tree, path: str, tried: str, not_tried: str
) -> None:
    found = reached_by(tree, path)
    named = {f"tests/{each}.py": each in tried.split() for each in f"{tried} {not_tried}".split()}
    assert named.keys() <= tree.tests
    assert {each for each in named if each in found} == {each for each in named if named[each]}


@pytest.mark.parametrize("package", affected.BESIDE_CORE)
def test_each_module_reaches_the_tests_that_have_its_name(tree: Tree, package: str) -> None:
    """Whatever else a change of it reaches, which is never nothing."""
    for path in (affected.ROOT / "placement" / package).rglob("*.py"):
        found = tree.reached_by(str(path.relative_to(affected.ROOT)))
        named = tree.named_after({str(path.relative_to(affected.ROOT))})
        assert isinstance(found, str) or (found and named <= found)


def test_what_imports_a_removed_module_is_reached(tmp_path: Path) -> None:
    """It cannot be collected any more; so it is with a test whose parts another test imports."""
    (tmp_path / "tests").mkdir()
    for name, text in (
        ("first", "from benchmarks.gone import a"),
        ("second", "import docs._tools.gone"),
        ("third", "from tests.test_gone import a"),
        ("fourth", "pass"),
    ):
        (tmp_path / f"tests/test_{name}.py").write_text(text)
    without = Tree(tmp_path)
    assert without.reached_by("benchmarks/gone.py") == {"tests/test_first.py"}
    assert without.reached_by("docs/_tools/gone.py") == {"tests/test_second.py"}
    assert without.reached_by("tests/test_gone.py") == {"tests/test_third.py"}


def test_documentation_is_always_tried(tree: Tree) -> None:
    """Its tests read the names and citations of all sources."""
    everything, tests = reached(["tests/search/test_search_scale.py"], tree)
    assert everything == ""
    assert tests["tests/search/test_search_scale.py"] == "tests/search/test_search_scale.py"
    assert {Path(test).parent.name for test in tests} == {"search", "docs"}
    assert reached([affected.SECONDS], tree).tests.keys() == tree.named("tests/docs/")


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, check=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    require_program("git")
    git(tmp_path, "init", "-q")
    (tmp_path / "tests").mkdir()
    for name in ("stays", "changes", "goes", "moves"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    (tmp_path / affected.SECONDS).write_text(
        f'{{"commit": "{git(tmp_path, "rev-parse", "HEAD")}"}}'
    )
    return tmp_path


def test_what_is_committed_changed_removed_moved_and_new_is_seen(repository: Path) -> None:
    git(repository, "mv", "moves", "moved")
    git(repository, "commit", "-qm", "second")
    (repository / "changes").write_text("changed")
    (repository / "goes").unlink()
    (repository / "new").touch()

    assert changed_files(repository) == [
        "changes",
        "goes",
        "moved",
        "moves",
        "new",
        affected.SECONDS,
    ]


def test_a_commit_that_is_none_of_the_past_says_nothing(repository: Path) -> None:
    git(repository, "commit", "-q", "--amend", "-m", "another")
    assert isinstance(changed_files(repository), str)


def test_without_git_or_a_full_run_nobody_knows(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert isinstance(changed_files(repository), str)
    assert affected.head(repository) == ""
    (repository / affected.SECONDS).unlink()
    assert changed_files(repository) == "there is no full run to compare with"


def test_an_archive_inside_another_repository_has_no_past(repository: Path) -> None:
    """The other's files say nothing of it."""
    archive = repository / "unpacked"
    (archive / "tests").mkdir(parents=True)
    (archive / affected.SECONDS).write_text((repository / affected.SECONDS).read_text())
    assert isinstance(changed_files(archive), str)
    assert affected.head(archive) == ""
    assert affected.head(repository)
