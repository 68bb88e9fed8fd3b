"""What is wrong with policy files (specification 01 section 14.4)."""

import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_policy import policy

from placement.policies import files
from tests.support.service import configure

Faults = Callable[..., list[str]]

LIST = "placement:resource_providers:list"


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    (tmp_path / "policy.d").mkdir()
    return configure(
        oslo_policy__policy_file=str(tmp_path / "policy.yaml"),
        oslo_policy__policy_dirs=[str(tmp_path / "policy.d")],
    )


@pytest.fixture
def faults(conf: cfg.ConfigOpts, tmp_path: Path) -> Faults:
    """Write a policy file, and return what is wrong, without the name of the file."""

    def find(text: str, name: str = "policy.yaml") -> list[str]:
        (tmp_path / name).write_text(text)
        found = files.find_faults(conf)
        assert all(each.text.startswith(f"{tmp_path / name}") for each in found)
        return [each.text.removeprefix(f"{tmp_path / name}") for each in found]

    return find


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ("role:admin or", "nothing stands after or"),
        ("and role:admin", "nothing stands before and"),
        ("role:admin or ()", "nothing stands before )"),
        ("role:a role:b", "neither and nor or stands between role:a and role:b"),
        ("'role:b' or role:service", "'role:b' is not a check, such as role:admin"),
        ("(role:admin", "a parenthesis is not closed"),
        ("role:admin)", "a parenthesis is closed that was not opened"),
        (" ", "it is blank"),
    ],
)
def test_a_check_that_is_not_understood(faults: Faults, check: str, wrong: str) -> None:
    """It is named with its line, and what is wrong with it."""
    text = f'# Ours\n"auditor": "role:auditor"\n\n"{LIST}": "{check}"\n'
    assert faults(text) == [f":4: the rule {LIST} cannot be understood: {wrong}."]


@pytest.mark.parametrize(
    "check",
    [
        *('""', '"@"', '"!"', "[]", "[[role:a, role:b], role:c]"),
        "'user_id:b or not (role:d and rule:service_api)'",
    ],
)
def test_a_check_that_is_understood(faults: Faults, check: str) -> None:
    assert faults(f"{LIST}: {check}\n") == []


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a:b", "c"]) | st.floats(0, 1),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.sampled_from("ab"), values, max_size=2),
    max_leaves=5,
)  # fmt: skip


@given(VALUES)
def test_what_is_read_is_what_the_library_reads(check: object) -> None:
    """Whatever YAML makes of what stands after the name."""
    try:
        policy.RuleDefault("rule", check)  # type: ignore[arg-type]
    except Exception:
        assert files._explain_unreadable(check)
    else:
        assert not files._explain_unreadable(check)


WORDS = (
    "a:b", "and", "or", "NOT", "(", ")", "(c:d", "e:f)", "!", "@", "x", "'q:r'", "((s:%(t)s",
    "g:h))",
)  # fmt: skip


@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9))
def test_what_is_parsed_is_what_the_library_parses(words: list[str]) -> None:
    """Any other word is a check of its own that the library takes for "never"."""
    said: list[logging.LogRecord] = []
    library = logging.getLogger("oslo_policy")
    handler = logging.Handler(logging.ERROR)
    handler.emit = said.append  # type: ignore[method-assign]
    library.addHandler(handler)
    try:
        rule = policy.RuleDefault("rule", " ".join(words))
    finally:
        library.removeHandler(handler)

    raised = [str(record.exc_info[1]) for record in said if record.exc_info]
    # Before release 5 the library takes a lone word such as "and" without a word, and makes no check of it.
    parsed = "Could not parse rule" not in raised and callable(rule.check)
    assert (files._explain_syntax(" ".join(words)) is None) == parsed


def test_a_name_that_is_almost_one_of_ours(faults: Faults) -> None:
    text = f"""\
placement:resource_provider:list: role:a
placment:traits:list: role:a
admin_or_services_api: role:a
placement:nothing-like-it: role:a
{LIST}: rule:reader_apis or rule:service_ap
"""
    there_is, does_not_exist = "there is no rule", "which does not exist; did you mean"
    assert faults(text) == [
        f":1: {there_is} placement:resource_provider:list; did you mean {LIST}?",
        f":2: {there_is} placment:traits:list; did you mean placement:traits:list?",
        f":3: {there_is} admin_or_services_api; did you mean admin_or_service_api?",
        f":4: {there_is} placement:nothing-like-it.",
        f":5: the rule {LIST} refers to reader_apis, which does not exist.",
        f":5: the rule {LIST} refers to service_ap, {does_not_exist} service_api?",
    ]


def test_names_of_others_are_left_alone(faults: Faults) -> None:
    """Of other services, of former releases, and what an operator calls a rule to refer to it."""
    text = f"""\
os_compute_api:servers:create: rule:project_member_api
project_member_api: role:member and project_id:%(project_id)s
system_reader_api: role:reader and system_scope:all
admin_or_services_api: role:admin
placement:mine: role:mine
rule:admin_api: role:admin
{LIST}: rule:admin_or_services_api or rule:placement:mine
"""
    assert faults(text) == []


def test_a_default_rule_stands_for_those_that_do_not_exist(faults: Faults) -> None:
    assert faults(f"default: role:admin\n{LIST}: rule:admin_or_service_ap\n") == []


def test_rules_that_refer_to_themselves(faults: Faults) -> None:
    """oslo.policy would go round in them."""
    refers = "refers to itself."
    assert faults(f"mine: rule:yours\nyours: rule:mine\n{LIST}: rule:mine\n") == [
        f":1: the rule mine {refers}",
        f":2: the rule yours {refers}",
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{\n "a": "role:b",\n "c" "d"\n}', ":3: this is not YAML: "),
        ("- role:admin\n", ":1: a policy file maps names of rules to checks; this one does not."),
    ],
)
def test_a_file_that_holds_no_rules(faults: Faults, text: str, found: str) -> None:
    (fault,) = faults(text)
    assert fault.startswith(found)


def test_files_in_a_directory(faults: Faults, tmp_path: Path) -> None:
    """Each is named by itself; a line counts in its own file, of JSON too."""
    (tmp_path / "policy.yaml").write_text("mine: role:mine\n")
    (tmp_path / "policy.d" / ".10.yaml.swp").write_text("[")
    text = f'{{\n  "{LIST}":\n    "rule:mine or"\n}}\n'
    assert faults(text, "policy.d/20.json") == [
        f":2: the rule {LIST} cannot be understood: nothing stands after or."
    ]
