"""Specification 01 section 14: who may do what, with options and files that change under the service."""

import os
from pathlib import Path

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext

from placement import errors
from placement.web.authorization import Authorizer
from tests.support.service import configure

RESHAPE, USAGES, OTHER = "reshaper:reshape", "usages", "traits:list"
MINE, THEIRS = {"project_id": "mine"}, {"project_id": "theirs"}

TABLE = [
    # roles, enforce_new_defaults, reshape, own usages, others' usages, all other rules
    (["admin"], True, False, True, True, True),
    (["ADMIN"], True, False, True, True, True),
    (["admin"], False, True, True, True, True),
    (["service"], True, True, True, True, True),
    (["service"], False, True, True, True, True),
    (["reader"], True, False, True, False, False),
    (["Reader", "member"], False, False, True, False, False),
    (["member"], True, False, False, False, False),
    ([], False, False, False, False, False),
]


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    return configure(
        oslo_policy__policy_file=str(tmp_path / "policy.yaml"),
        oslo_policy__policy_dirs=[str(tmp_path / "policy.d")],
    )


def caller(roles: list[str], **more: str) -> RequestContext:
    return RequestContext(user_id="me", project_id="mine", roles=roles, **more)


def may(
    authorizer: Authorizer, context: RequestContext, rule: str, target: dict[str, str] | None = None
) -> bool:
    try:
        authorizer.check(rule, context, target)
    except errors.Forbidden:
        return False
    return True


def write(path: Path, text: str) -> None:
    """Replace a policy file as an editor does; its time moves on whatever the clock's grain."""
    path.parent.mkdir(exist_ok=True)
    before = path.stat().st_mtime if path.exists() else 0
    path.write_text(text)
    now = path.stat().st_mtime
    if now <= before:
        os.utime(path, (before + 1, before + 1))


@pytest.mark.parametrize(("roles", "new", "reshape", "own", "others", "rest"), TABLE)
def test_default_rules(
    conf: cfg.ConfigOpts,
    roles: list[str],
    new: bool,
    reshape: bool,
    own: bool,
    others: bool,
    rest: bool,
) -> None:
    conf.set_override("enforce_new_defaults", new, group="oslo_policy")
    authorizer, context = Authorizer(conf), caller(roles)
    for _ in range(2):
        assert may(authorizer, context, RESHAPE) is reshape
        assert may(authorizer, context, USAGES, MINE) is own
        assert may(authorizer, context, USAGES, THEIRS) is others
        assert may(authorizer, context, OTHER) is rest


def test_enforce_new_defaults_is_read_live(conf: cfg.ConfigOpts) -> None:
    authorizer, admin = Authorizer(conf), caller(["admin"])
    assert not may(authorizer, admin, RESHAPE)
    conf.set_override("enforce_new_defaults", False, group="oslo_policy")
    assert may(authorizer, admin, RESHAPE)
    conf.set_override("enforce_new_defaults", True, group="oslo_policy")
    assert not may(authorizer, admin, RESHAPE)


@pytest.mark.parametrize("scope", [{"system_scope": "all"}, {"domain_id": "default"}])
def test_other_scopes_are_refused_even_if_the_file_opens_the_rule(
    conf: cfg.ConfigOpts, tmp_path: Path, scope: dict[str, str]
) -> None:
    write(tmp_path / "policy.yaml", '"placement:traits:list": "@"\n')
    authorizer = Authorizer(conf)
    assert may(authorizer, caller([]), OTHER)
    with pytest.raises(errors.Forbidden) as refused:
        authorizer.check(OTHER, caller(["admin", "service"], **scope), None)
    assert str(refused.value) == "placement:traits:list"


def test_files_are_read_again_when_they_change(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    authorizer, nobody = Authorizer(conf), caller([])
    assert not may(authorizer, nobody, OTHER)
    write(tmp_path / "policy.yaml", '"placement:traits:list": ""\n')
    assert may(authorizer, nobody, OTHER)
    write(tmp_path / "policy.yaml", '"placement:traits:list": "!"\n')
    assert not may(authorizer, caller(["admin"]), OTHER)
    (tmp_path / "policy.yaml").unlink()
    assert may(authorizer, caller(["admin"]), OTHER)
    assert not may(authorizer, nobody, OTHER)


def test_a_file_is_noticed_wherever_oslo_config_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the others beside the configuration file, then at home; until it is gone from there."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    beside, hidden, home = tmp_path / "etc", tmp_path / "home" / ".placement", tmp_path / "home"
    for folder in (home, hidden, beside):
        folder.mkdir()
    (beside / "placement.conf").touch()
    conf = configure()
    conf(["--config-file", str(beside / "placement.conf")], project="placement")
    authorizer, nobody = Authorizer(conf), caller([])
    assert not may(authorizer, nobody, OTHER)

    for place, rule, allowed in ((home, "", True), (hidden, "!", False), (beside, "", True)):
        write(place / "policy.yaml", f'"placement:traits:list": "{rule}"\n')
        assert conf.find_file("policy.yaml") == str(place / "policy.yaml")
        assert may(authorizer, nobody, OTHER) is allowed
    for place, allowed in ((beside, False), (hidden, True), (home, False)):
        (place / "policy.yaml").unlink()
        assert may(authorizer, nobody, OTHER) is allowed


def test_directories_come_after_the_file_in_name_order(
    conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    write(tmp_path / "policy.yaml", '"placement:traits:list": "!"\n')
    write(tmp_path / "policy.d" / "20.yaml", '"placement:traits:list": "role:b"\n')
    write(tmp_path / "policy.d" / "10.yaml", '"placement:traits:list": "role:a"\n')
    authorizer = Authorizer(conf)
    assert may(authorizer, caller(["b"]), OTHER)
    assert not may(authorizer, caller(["a"]), OTHER)
    (tmp_path / "policy.d" / "20.yaml").unlink()
    assert may(authorizer, caller(["a"]), OTHER)


def test_broken_file_keeps_the_last_good_rules(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    write(tmp_path / "policy.yaml", '"placement:traits:list": "role:a"\n')
    authorizer = Authorizer(conf)
    write(tmp_path / "policy.yaml", '"placement:traits:list: [}\n')
    assert may(authorizer, caller(["a"]), OTHER)
    assert not may(authorizer, caller(["b"]), OTHER)
    write(tmp_path / "policy.yaml", '"placement:traits:list": "role:b"\n')
    assert may(authorizer, caller(["b"]), OTHER)


def test_broken_rule_keeps_the_last_good_rules(
    conf: cfg.ConfigOpts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One line of the log names it, for each change of the file."""
    authorizer, admin = Authorizer(conf), caller(["admin"])
    write(tmp_path / "policy.yaml", '"placement:traits:list": "role:admin or"\n')
    for _ in range(2):
        assert may(authorizer, admin, OTHER)
    (record,) = caplog.records
    assert f"{tmp_path / 'policy.yaml'}:1: the rule placement:traits:list" in record.getMessage()
    assert record.exc_info is None


def test_broken_file_stops_the_start(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    write(tmp_path / "policy.yaml", '"placement:traits:list: [}\n')
    with pytest.raises(Exception, match=r"traits:list|scalar|YAML"):
        Authorizer(conf)


def test_rules_about_the_caller_are_not_remembered_by_roles(
    conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    write(tmp_path / "policy.yaml", '"placement:traits:list": "user_id:me and not role:x"\n')
    authorizer = Authorizer(conf)
    assert may(authorizer, caller(["a"]), OTHER)
    stranger = RequestContext(user_id="you", project_id="mine", roles=["a"])
    assert not may(authorizer, stranger, OTHER)


def test_admin_api_changes_nothing(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    write(tmp_path / "policy.yaml", '"admin_api": "role:boss"\n')
    authorizer = Authorizer(conf)
    assert may(authorizer, caller(["admin"]), OTHER)
    assert not may(authorizer, caller(["boss"]), OTHER)


def test_file_rules_get_no_deprecated_default(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    conf.set_override("enforce_new_defaults", False, group="oslo_policy")
    write(tmp_path / "policy.yaml", '"service_api": "role:service"\n')
    assert not may(Authorizer(conf), caller(["admin"]), RESHAPE)


def test_the_log_says_which_rule_refused_which_roles(
    conf: cfg.ConfigOpts, caplog: pytest.LogCaptureFixture
) -> None:
    """One line for each refusal, remembered or not, and none for what is allowed."""
    caplog.set_level("INFO", "placement")
    authorizer = Authorizer(conf)
    for roles, scope in ((["reader", "member"], {}), ([], {}), (["admin"], {"system_scope": "all"})):
        for _ in range(2):
            assert not may(authorizer, caller(roles, **scope), OTHER)
    assert may(authorizer, caller(["admin"]), OTHER)
    refused, lines = "The rule placement:traits:list refuses", caplog.messages
    assert lines[::2] == lines[1::2] == [
        f"{refused} the roles reader, member",
        f"{refused} a caller without roles",
        f"{refused} a token that is not of a project",
    ]
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_a_former_file_that_is_alone_is_read_or_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """oslo.policy before release 5 reads policy.json, and a change of it is noticed; later ones do not."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "placement.conf").touch()
    file = tmp_path / "policy.json"
    write(file, '{"placement:traits:list": "role:a"}')
    conf = configure()
    conf(["--config-file", str(tmp_path / "placement.conf")], project="placement")
    authorizer = Authorizer(conf)
    if may(authorizer, caller(["a"]), OTHER):
        write(file, '{"placement:traits:list": "role:b"}')
        assert may(authorizer, caller(["b"]), OTHER)
    else:
        (line,) = caplog.messages
        assert line.startswith(f"{file} is not read, only policy.yaml is")
    write(tmp_path / "policy.yaml", '"placement:traits:list": "role:c"')
    caplog.clear()
    assert may(authorizer, caller(["c"]), OTHER)
    assert not caplog.messages
