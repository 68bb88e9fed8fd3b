"""Policy files as clouds have them, and what oslo.policy makes of them (specification 01 section 14.4)."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from placement import errors, policies
from placement.advice import NotConfigured
from placement.cmd import manage
from placement.web.authorization import Authorizer
from tests.support.service import configure, database_url

LIST, SHOW = "placement:resource_providers:list", "placement:resource_providers:show"
VIEW = f"{LIST}: rule:is_viewer\n"


NO_CHECK = "which is not a check and counts as never; did you mean"
NEVER = "and it counts as never"
WRONG = "cannot be understood:"
LOST = "which does not exist"
TEXT = "a check is a text, or a list of lists"
NO_RULES = "a policy file maps names of rules to checks; this one does not."
ALWAYS = "which counts as always; did you mean @ or !?"


class Odd(NamedTuple):
    """Policy files, and what is said of them.

    :param text: of ``policy.yaml``.
    :param told: a line for each fault, without the name of the directory: WARNINGs of a start.
    :param refused: lines that forbid a start.
    :param beside: files of the same directory.
    """

    text: str
    told: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    beside: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, object], ...] = ()


def at(line: int, rule: str, words: str, file: str = "policy.yaml") -> str:
    return f"{file}:{line}: the rule {rule} {words}"


def undecided(check: str, why: str) -> Odd:
    """Where oslo.policy raises an error when it is asked."""
    words = f"has {check}: oslo.policy cannot decide it ({why}), and who depends on it is refused."
    return Odd(f"{LIST}: role:member or {check}\n", (at(1, LIST, words),))


def half(text: str, line: int, rule: str, why: str) -> Odd:
    """A check that cannot be parsed, in a rule that an operation uses."""
    return Odd(text, refused=(at(line, rule, f"{WRONG} {why}"),))


TABLE = {
    # What nobody has to be told of.
    "empty": Odd(""),
    "comments": Odd("# nothing yet\n"),
    "always and never": Odd(f'{LIST}: "@"\n{SHOW}: "!"\n'),
    "nothing is always": Odd(f"{LIST}: ''\n{SHOW}: []\n"),
    "lists of lists": Odd(f"{LIST}: [[role:member, role:auditor], role:reader]\n"),
    "upper case": Odd(f"{LIST}: 'role:x OR (role:MEMBER AND NOT role:auditor)'\n"),
    "the default written again": Odd(f"{LIST}: rule:admin_or_service_api\n"),
    "of another service": Odd("os_compute_api:servers:create: field:x:y=z and rule:nowhere\n"),
    "helpers": Odd(f"is_viewer: role:reader\n{VIEW}"),
    "roles of a list": Odd(f"{LIST}: roles:member\n"),
    "values": Odd(f"{LIST}: \"True:True and 'x':x and user_id:%(user_id)s\"\n"),
    "a repeated rule": Odd(f"{LIST}: '!'\n{LIST}: role:member\n"),
    "a default rule": Odd(f"default: role:member\n{LIST}: rule:anything\n"),
    "json": Odd(f'{{"{LIST}": "role:member",\n "{SHOW}": [["role:reader"]]}}'),
    "a json file that is named": Odd(
        "", beside=(("rules.json", f'{{"{LIST}": "role:member"}}'),), options=(("policy_file", "rules.json"),)
    ),
    "directories": Odd(
        f"{LIST}: '!'\n",
        beside=(("policy.d/20", f"{LIST}: role:member\n"), ("policy.d/10.yaml", f"{LIST}: '@'\n")),
    ),
    "hidden files": Odd("", beside=(("policy.d/.policy.yaml.swp", "["),)),
    "a former name": Odd("'rule:admin_api': role:member\n"),
    "a former name that refers to the new one": Odd("'rule:admin_api': rule:service_api\n"),
    "former defaults": Odd("", options=(("enforce_new_defaults", False),)),
    "admin_api": Odd("admin_api: role:member\n"),
    # Checks that oslo.policy reads as never.
    "a helper without rule:": Odd(
        f"is_admin: role:admin\nis_viewer: is_admin or role:member\n{VIEW}",
        (at(2, "is_viewer", f"has is_admin, {NO_CHECK} rule:is_admin?"),),
    ),
    "a helper that nothing uses": Odd(
        "is_viewer: is_admin or role:member\n",
        (at(1, "is_viewer", f"has is_admin, {NO_CHECK} role:is_admin?"),),
    ),
    "a lone word": Odd(f"{LIST}: member\n", (at(1, LIST, f"has member, {NO_CHECK} role:member?"),)),
    "not a lone word": Odd(
        f"{LIST}: not member\n", (at(1, LIST, f"has member, {NO_CHECK} role:member?"),)
    ),
    "almost the name of a rule": Odd(
        f"{LIST}: admin_or_services_api or role:member\n",
        (at(1, LIST, f"has admin_or_services_api, {NO_CHECK} rule:admin_or_service_api?"),),
    ),
    "a lone word in a list": Odd(
        f"{LIST}: [[member], 'role:reader']\n",
        (at(1, LIST, f"has member, {NO_CHECK} role:member?"),),
    ),
    "a number in a list of a list": Odd(
        f"{LIST}: [[5], 'role:reader']\n", (at(1, LIST, f"has 5, {NO_CHECK} role:5?"),)
    ),
    "a mapping": Odd(
        f"{LIST}:\n  role: member\n",
        (at(1, LIST, "is a mapping, of which only the names count; did you mean role:member?"),),
    ),
    "an unknown kind": Odd(
        f"{LIST}: foo:bar or role:member\n", (at(1, LIST, f"has foo:bar: nothing is known as foo, {NEVER}."),)
    ),
    "is_admin": Odd(
        "service_api: is_admin:True\n",
        (at(1, "service_api", f"has is_admin:True: nothing is known as is_admin, {NEVER}."),),
    ),
    "a misspelt kind": Odd(
        f"{LIST}: rol:member\n",
        (at(1, LIST, f"has rol:member: nothing is known as rol, {NEVER}; did you mean role:member?"),),
    ),
    "an unknown attribute of the target": Odd(
        f"{LIST}: user_id:%(userid)s\n",
        (at(1, LIST, f"has user_id:%(userid)s: nothing is known as userid, {NEVER}; did you mean user_id?"),),
    ),
    "a kind that is no name": undecided("is:admin", "invalid syntax (<unknown>, line 1)"),
    "inside a text": undecided("user_id.name:x", "string indices must be integers, not 'str'"),
    "a percent sign": undecided("role:100%", "incomplete format"),
    "a target as a number": undecided(
        "project_id:%(project_id)d", "%d format: a real number is required, not str"
    ),
    # What it reads as always.
    "no value": Odd(f"{LIST}:\n", (at(1, LIST, f"has the value null, {ALWAYS}"),)),
    "false": Odd(f"{LIST}: false\n", (at(1, LIST, f"has the value false, {ALWAYS}"),)),
    # Names.
    "a rule that is misspelt": Odd(
        "placement:resource_provider:list: role:member\n",
        (f"policy.yaml:1: there is no rule placement:resource_provider:list; did you mean {LIST}?",),
    ),
    "a rule of no release": Odd(
        "placement:no-such: role:member\n", ("policy.yaml:1: there is no rule placement:no-such.",)
    ),
    "a reference that is misspelt": Odd(
        f"{LIST}: rule:service_apis or role:member\n",
        (at(1, LIST, f"refers to service_apis, {LOST}; did you mean service_api?"),),
    ),
    "a reference to nothing": Odd(
        f"{LIST}: rule:system_api or role:member\n", (at(1, LIST, f"refers to system_api, {LOST}."),)
    ),
    "rules that refer to each other": Odd(
        f"{LIST}: role:member or rule:one\none: rule:other\nother: rule:one\n",
        (at(2, "one", "refers to itself."), at(3, "other", "refers to itself.")),
    ),
    "a rule that refers to itself": Odd(
        f"{LIST}: rule:{LIST} or role:member\n", (at(1, LIST, "refers to itself."),)
    ),
    "several": Odd(
        f"one: two\n{LIST}: rule:none\n",
        (at(1, "one", f"has two, {NO_CHECK} role:two?"), at(2, LIST, f"refers to none, {LOST}.")),
    ),
    # What cannot be parsed, where no operation asks.
    "half a helper": Odd(
        "is_viewer: role:reader or\n", (at(1, "is_viewer", f"{WRONG} nothing stands after or."),)
    ),
    "half a rule of another service": Odd(
        "compute:start: (role:reader\n", (at(1, "compute:start", f"{WRONG} a parenthesis is not closed."),)
    ),
    "half a rule that a later file replaces": Odd(
        f"{LIST}: role:reader or\n",
        (at(1, LIST, f"{WRONG} nothing stands after or."),),
        beside=(("policy.d/10.yaml", f"{LIST}: role:member\n"),),
    ),
    # What refuses the start.
    "half a rule": half(f"{LIST}: role:reader or\n", 1, LIST, "nothing stands after or."),
    "half a helper of a rule": half(
        f"is_viewer: (role:reader\n{VIEW}", 1, "is_viewer", "a parenthesis is not closed."
    ),
    "half a base rule": half(
        "service_api: role:a role:b\n",
        *(1, "service_api", "neither and nor or stands between role:a and role:b."),
    ),
    "half a former name": half(
        "'rule:admin_api': role:a and\n", 1, "rule:admin_api", "nothing stands after and."
    ),
    "half a default rule": half(
        f"default: and role:a\n{LIST}: rule:nothing\n", 1, "default", "nothing stands before and."
    ),
    "half a rule of a directory": Odd(
        f"{LIST}: role:member\n",
        refused=(at(1, LIST, f"{WRONG} it is blank.", "policy.d/10.yaml"),),
        beside=(("policy.d/10.yaml", f"{LIST}: ' '\n"),),
    ),
    "half a rule and a misspelt one": Odd(
        f"placement:nothing: role:a\n{LIST}: role:reader or\n",
        ("policy.yaml:1: there is no rule placement:nothing.",),
        (at(2, LIST, f"{WRONG} nothing stands after or."),),
    ),
    "a quoted text": half(
        f"{LIST}: role:a or 'role:b'\n", 1, LIST, "'role:b' is not a check, such as role:admin."
    ),
    # Files that oslo.policy cannot read either.
    "a number": half("other:rule: 5\n", 1, "other:rule", f"{TEXT}."),
    "true": half(f"{LIST}: true\n", 1, LIST, f"{TEXT}."),
    "a number in a list": half(f"{LIST}: [5]\n", 1, LIST, "5 is not a check, such as role:admin."),
    "a list of rules": Odd("- role:admin\n", refused=(f"policy.yaml:1: {NO_RULES}",)),
    "no yaml": Odd(
        f"{LIST}: role:a\n}}\n",
        refused=("policy.yaml:2: this is not YAML: expected <block end>, but found '}'.",),
    ),
    "json without a comma": Odd(
        '{"a": "role:b"\n "c": "role:d"}',
        refused=("policy.yaml:2: this is not YAML: expected ',' or '}', but got '<scalar>'.",),
    ),
    "no yaml in a directory": Odd(
        "",
        refused=(f"policy.d/README:1: {NO_RULES}",),
        beside=(("policy.d/README", "Put your rules here.\n"),),
    ),
}  # fmt: skip


CALLERS = [
    RequestContext(user_id=user, project_id="mine", roles=roles)
    for user, *roles in (
        ("me",),
        ("me", "admin"),
        ("me", "service"),
        ("me", "reader"),
        ("me", "Member"),
        ("me", "member", "auditor"),
        ("x", "reader", "member"),
    )
]
TARGETS = ({"project_id": "mine", "user_id": "me"}, {"project_id": "x", "user_id": "x"})

Decision = Callable[[str, RequestContext, dict[str, str]], bool]


@pytest.fixture(params=TABLE.values(), ids=list(TABLE))
def odd(request: pytest.FixtureRequest) -> Odd:
    found: Odd = request.param
    return found


@pytest.fixture
def conf(odd: Odd, tmp_path: Path) -> cfg.ConfigOpts:
    """What reads the files of a directory, in which there are none yet."""
    (tmp_path / "placement.conf").write_text(_written(odd))
    conf = configure()
    conf(["--config-file", str(tmp_path / "placement.conf")], project="placement")
    return conf


def _written(odd: Odd) -> str:
    options = [f"{name} = {value}" for name, value in odd.options]
    database = (
        f"[placement_database]\nconnection = {database_url()}\n[api]\nauth_strategy = noauth2\n"
    )
    return "\n".join([f"{database}[oslo_policy]", *options, ""])


def write(odd: Odd, directory: Path) -> None:
    for name, text in (("policy.yaml", odd.text), *odd.beside):
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)


def decisions(decide: Decision) -> dict[tuple[str, int, int], bool]:
    """Return whether each rule admits each caller to each target."""
    return {
        (rule, who, what): decide(rule, caller, target)
        for rule in policies.find_guarded()
        for who, caller in enumerate(CALLERS)
        for what, target in enumerate(TARGETS)
    }


def of_library(conf: cfg.ConfigOpts) -> dict[tuple[str, int, int], bool]:
    """Return what oslo.policy decides; where it fails to, nobody is admitted.

    :raises Exception: it cannot read the files.
    """
    enforcer = policy.Enforcer(conf)
    enforcer.suppress_deprecation_warnings = True
    enforcer.register_defaults(policies.list_rules())
    enforcer.load_rules()
    # The files stay as they are, and are not looked at for each question.
    enforcer.use_conf = False

    def decide(rule: str, caller: RequestContext, target: dict[str, str]) -> bool:
        try:
            name = policies.PREFIX + rule
            return bool(enforcer.enforce(name, dict(target), caller.to_policy_values()))
        except (RecursionError, SyntaxError, TypeError, ValueError):
            return False

    return decisions(decide)


def is_read_by_library(conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture) -> bool:
    """Return whether oslo.policy reads the files, and parses every check."""
    try:
        of_library(conf)
    except Exception:
        return False
    raised = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    return "Could not parse rule" not in raised


def of_service(authorizer: Authorizer) -> dict[tuple[str, int, int], bool]:
    def decide(rule: str, caller: RequestContext, target: dict[str, str]) -> bool:
        try:
            authorizer.check(rule, caller, target)
        except errors.Forbidden:
            return False
        return True

    return decisions(decide)


def logged(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    """Return what was logged at this level, whoever said it, and forget it."""
    found = [record.getMessage() for record in caplog.records if record.levelno == level]
    assert not any(record.exc_info for record in caplog.records)
    return found


def placed(lines: tuple[str, ...], directory: Path) -> list[str]:
    return [f"{directory}/{line}" for line in lines]


def test_a_start_reads_what_the_library_reads(
    odd: Odd, conf: cfg.ConfigOpts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Everybody may do the same with it, and a line for each fault says where it stands."""
    write(odd, tmp_path)
    if odd.refused:
        with pytest.raises(NotConfigured) as refused:
            Authorizer(conf)
        assert list(refused.value.args) == placed(odd.refused, tmp_path)
        assert not is_read_by_library(conf, caplog)
        return
    authorizer = Authorizer(conf)
    assert logged(caplog, logging.ERROR) == []
    told = [line for line in logged(caplog, logging.WARNING) if not line.startswith(OF_LIBRARY)]
    assert told == placed(odd.told, tmp_path)
    assert of_service(authorizer) == of_library(conf)


OF_LIBRARY = ("Policy Rules ", "JSON formatted policy_file")
"""How oslo.policy begins to say that a file repeats a default, and before release 5 that it is JSON."""


def test_a_running_service_reads_what_the_library_reads(
    odd: Odd, conf: cfg.ConfigOpts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What forbids a start is one ERROR, and the rules stay as they were."""
    authorizer = Authorizer(conf)
    before = of_service(authorizer)
    write(odd, tmp_path)
    after = of_service(authorizer)
    told = [line for line in logged(caplog, logging.WARNING) if not line.startswith(OF_LIBRARY)]
    if odd.refused:
        assert after == before
        (line,) = logged(caplog, logging.ERROR)
        assert line.endswith(" ".join(placed(odd.refused, tmp_path)))
        assert told == []
    else:
        assert after == of_library(conf)
        assert told == placed(odd.told, tmp_path)


def test_the_check_of_the_configuration_fails_for_all_of_it(
    odd: Odd,
    conf: cfg.ConfigOpts,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Before a start for that alone which forbids it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))
    write(odd, tmp_path)
    fatal, told = (placed(lines, tmp_path) for lines in (odd.refused, odd.told))

    def checked(*arguments: str) -> tuple[int, list[str]]:
        code = manage.run(["config", "check", *arguments], "placement-manage")
        return code, capsys.readouterr().out.splitlines()

    assert checked() == (int(bool(fatal + told)), [f"error: {line}" for line in fatal + told])
    assert not (fatal or told) or checked("--before", "start") == (
        int(bool(fatal)),
        [f"error: {line}" for line in fatal] + [f"warning: {line}" for line in told],
    )
