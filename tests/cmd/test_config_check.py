"""``placement-manage config check`` finds what a start would (specification 06 section 6.1)."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from placement.cmd import manage
from placement.db import schema
from placement.db.coexistence import takeover
from placement.db.database import Database
from tests.support.databases import opened, scratch_database
from tests.support.identity import identity_service
from tests.support.programs import Command, critical
from tests.support.revisions import AT_HEAD, execute, on

IDENTITY = """
[keystone_authtoken]
auth_type = password
www_authenticate_uri = {url}
auth_url = {url}
username = placement
password = s3cret
project_name = service
user_domain_name = Default
project_domain_name = Default
"""

Check = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def check(
    environment: dict[str, str],
    synced: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Check:
    """Write ``placement.conf`` and return the exit code and the lines of its check."""
    monkeypatch.setenv("HOME", environment["HOME"])
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(tmp_path))

    def run(
        more: str = "", *arguments: str, auth: str = "noauth2", url: str = synced
    ) -> tuple[int, list[str]]:
        text = f"[api]\nauth_strategy = {auth}\n[placement_database]\nconnection = {url}\n{more}"
        (tmp_path / "placement.conf").write_text(text)
        code = manage.run(["config", "check", *arguments], "placement-manage")
        printed = capsys.readouterr()
        assert "s3cret" not in printed.out + printed.err
        assert str(tmp_path / "placement.conf") in printed.err
        return code, printed.out.splitlines()

    return run


def test_nothing_to_find(check: Check) -> None:
    assert check() == (0, [])


def test_that_nothing_was_found_is_said(check: Check, capsys: pytest.CaptureFixture[str]) -> None:
    """On stderr: a script reads the findings on stdout."""
    for more, is_said in (("", True), ("max_pool_sise = 5\n", False)):
        check(more)
        manage.run(["config", "check"], "placement-manage")
        assert ("No fault was found." in capsys.readouterr().err.splitlines()) == is_said


FAULTS = {
    "a value": ("[api]\nsearch_deadline = soon\n", "search_deadline"),
    "a link": ("[insight]\nenabled = true\nlink_consumer = nowhere\n", "link_consumer"),
    "shapes": ("[insight]\nshapes_file = /nonesuch/shapes.yaml\n", "shapes_file"),
    "a policy": ("[oslo_policy]\npolicy_file = /nonesuch/policy.yaml\n", "policy_file"),
    "a log": ("[DEFAULT]\nlog_file = /nonesuch/placement.log\n", "log_file"),
}


def test_no_fault_hides_another(check: Check) -> None:
    """Each is found alone, and all of them are together, also beside a database without a schema."""
    for text, words in FAULTS.values():
        code, lines = check("".join({"[insight]\nenabled = true\n" if "shapes" in text else "", text}))
        assert code == 1
        assert any(words in line for line in lines), (text, lines)

    code, lines = check("".join(text for text, _ in FAULTS.values()))

    assert code == 1
    for _, words in FAULTS.values():
        assert any(words in line for line in lines), (words, lines)


def test_misspelt_options(check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named with their file, and stop neither a start nor a reload."""
    monkeypatch.setenv("OS_API__AUTH_STRATEGI", "noauth2")
    more = "max_pool_sise = 5\n[oslo_policy]\nenforce_scope = true\n[other]\nthing = 1\n"
    file = tmp_path / "placement.conf"
    lines = [
        f"{file}:5: there is no option max_pool_sise in [placement_database];"
        " did you mean max_pool_size?",
        "environment variable OS_API__AUTH_STRATEGI: there is no option auth_strategi in [api];"
        " did you mean auth_strategy?",
    ]

    assert check(more) == (1, [f"error: {line}" for line in lines])
    for before in ("start", "reload"):
        assert check(more, "--before", before) == (0, [f"warning: {line}" for line in lines])


def test_malformed_options_are_all_named(check: Check, tmp_path: Path) -> None:
    code, lines = check(
        "max_retries = ten\nretry_interval = -5\n[placement]\nmax_request_groups = 0\n"
        "[insight]\npublic = everything\n",
        "--before",
        "start",
    )

    assert code == 1
    for name, line, why in (
        ("[placement_database]/max_retries", 5, "'ten' is not a whole number"),
        ("[placement_database]/retry_interval", 6, "Should be greater than or equal to 0"),
        ("[placement]/max_request_groups", 8, "Should be greater than or equal to 1"),
    ):
        assert f"error: {tmp_path}/placement.conf:{line}: {name}: {why}." in lines
    assert len([line for line in lines if "[insight]/public: " in line]) == 1
    assert not any("LocationInfo" in line for line in lines)


def test_a_value_of_the_environment(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OS_PLACEMENT__RANDOMIZE_ALLOCATION_CANDIDATES", "maybe")

    line = (
        "error: environment variable OS_PLACEMENT__RANDOMIZE_ALLOCATION_CANDIDATES: "
        "[placement]/randomize_allocation_candidates: 'maybe' is neither true nor false."
    )
    assert check() == (1, [line])


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (
            "[placement_database]\nconection = sqlite://\n",
            [
                "{file}:2: there is no option conection in [placement_database]; did you mean connection?",
                "[placement_database]/connection is not set. {file}:2 sets conection: "
                "did you mean connection?",
            ],
        ),
        (
            "# ours\n[database]\nconnection = sqlite://\n",
            [
                "[placement_database]/connection is not set. {file}:3 sets it in [database]: did you mean "
                "[placement_database]?"
            ],
        ),
        (
            "[DEFAULT]\nconnection = sqlite://\n",
            [
                "{file}:2: there is no option connection in [DEFAULT]; it belongs into [placement_database].",
                "[placement_database]/connection is not set. {file}:2 sets it in [DEFAULT]: did you mean "
                "[placement_database]?",
            ],
        ),
    ],
)
def test_what_stands_in_another_place_is_found(
    command: Command, start: Command, tmp_path: Path, text: str, lines: list[str]
) -> None:
    """The misspelt option comes before what it leads to; a start says the same in its one line."""
    file = tmp_path / "placement.conf"
    file.write_text(text)
    environment = {"OS_PLACEMENT_CONFIG_DIR": str(tmp_path), "OS_API__AUTH_STRATEGY": "noauth2"}
    told = [line.format(file=file) for line in lines]

    result = command("placement-manage", "config", "check", **environment)

    assert result.returncode == 1
    assert result.stdout.splitlines() == [f"error: {line}" for line in told]
    assert critical(start(**environment)).endswith(told[-1])


def test_the_option_of_another_section(check: Check, tmp_path: Path) -> None:
    line = (
        f"error: {tmp_path}/placement.conf:6: there is no option max_retries in [api]; "
        "it belongs into [placement_database]."
    )
    assert check("[api]\nmax_retries = 3\n") == (1, [line])


def test_no_connection(command: Command) -> None:
    result = command("placement-manage", "config", "check", OS_API__AUTH_STRATEGY="noauth2")

    assert result.returncode == 1
    assert result.stdout == (
        "error: [placement_database]/connection is not set. Set it in the configuration file "
        "(--config-file), or in the environment as OS_PLACEMENT_DATABASE__CONNECTION.\n"
    )
    assert "the environment alone" in result.stderr


def test_a_connection_to_nothing(command: Command, start: Command, tmp_path: Path) -> None:
    file = tmp_path / "placement.conf"
    file.write_text("[placement_database]\nconnection =\n")
    environment = {"OS_PLACEMENT_CONFIG_DIR": str(tmp_path), "OS_API__AUTH_STRATEGY": "noauth2"}

    result = command("placement-manage", "config", "check", **environment)

    assert result.returncode == 1
    told = f"[placement_database]/connection is not set. {file}:2 sets it to nothing."
    assert result.stdout == f"error: {told}\n"
    assert "/connection is not the URL of a database: it is empty. " in critical(start(**environment))


@pytest.mark.parametrize(
    ("text", "number", "why"),
    [
        ("no = section\n", 1, "an option stands before the first [section]"),
        ("[api]\n[placement_database\n", 2, "the name of a section ends with ]"),
        ("[api]\npassword s3cret\n", 2, "this line is neither option = value nor a [section]"),
        ("[api]\n# f\xfcr uns\n", 2, "this is not UTF-8"),
    ],
)
def test_file_that_is_no_configuration(
    command: Command, tmp_path: Path, text: str, number: int, why: str
) -> None:
    """The place and the reason; not the line, which may have a password."""
    file = tmp_path / "placement.conf"
    file.write_text(text, "latin-1")
    for arguments in ((), ("--config-file", str(file))):
        result = command(
            "placement-manage", *arguments, "config", "check", OS_PLACEMENT_CONFIG_DIR=str(tmp_path)
        )

        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr == f"placement-manage: {file}:{number}: {why}.\n"


BROKEN_YAML = [
    # What is not closed at the end of the file is looked for where it begins.
    (
        b"# ours\na: [role:x\n\n\n",
        2,
        "while parsing a flow sequence, expected ',' or ']', but got '<stream end>'",
    ),
    (b'a: "b\n', 1, "while scanning a quoted scalar, found unexpected end of stream"),
    (b"a: b\n\tc: d\n", 2, "found character '\\t' that cannot start any token"),
    (b"a: b: c\n", 1, "mapping values are not allowed here"),
    (b"a: b\nc: \x01\n", 2, "a control character is not allowed"),
]


@pytest.mark.parametrize(("text", "number", "why"), BROKEN_YAML)
def test_yaml_that_is_broken(check: Check, tmp_path: Path, text: bytes, number: int, why: str) -> None:
    """Of the policy and of the shapes: file, line, and what is wrong there."""
    for name, settings, end in (
        ("policy.yaml", "", "."),
        ("shapes.yaml", "[insight]\nenabled = true\nshapes_file = {}\n", " ([insight]/shapes_file)."),
    ):
        file = tmp_path / name
        file.write_bytes(text)
        line = f"error: {file}:{number}: this is not YAML: {why}{end}"
        assert check(settings.format(file), "--before", "reload") == (1, [line])
        file.write_bytes(b"# ours\na: \xe9\n")
        assert check(settings.format(file)) == (1, [f"error: {file}:2: this is not UTF-8{end}"])
        file.unlink()


def test_policy_files(check: Check) -> None:
    code, lines = check("[oslo_policy]\npolicy_file = rules.yaml\n")
    assert code == 1
    assert "rules.yaml" in lines[0]
    assert "default rules" in lines[0]
    assert check("[oslo_policy]\npolicy_file = rules.yaml\n", "--before", "start")[0] == 0


BROKEN = """\
"auditor": "role:auditor"
"placement:resource_providers:list": "role:admin or"
"placement:resource_provider:list": "rule:auditor"
"""


def test_a_broken_policy_stops_the_start_and_a_misspelt_one_is_told(
    check: Check, start: Command, command: Command, tmp_path: Path
) -> None:
    """There is no traceback of a library, in the log neither."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(BROKEN)
    broken = (
        f"{policy}:2: the rule placement:resource_providers:list cannot be understood: "
        "nothing stands after or."
    )
    misspelt = (
        f"{policy}:3: there is no rule placement:resource_provider:list; did you mean "
        "placement:resource_providers:list?"
    )

    assert check() == (1, [f"error: {broken}", f"error: {misspelt}"])
    for before in ("start", "reload"):
        assert check("", "--before", before) == (1, [f"error: {broken}", f"warning: {misspelt}"])
    checked = command("placement-manage", "config", "check", OS_PLACEMENT_CONFIG_DIR=str(tmp_path))
    assert checked.stderr.splitlines() == [f"Checking {tmp_path / 'placement.conf'}"]
    started = start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path))
    assert critical(started).endswith(broken)

    policy.write_text(BROKEN.replace(" or", ""))
    assert check("", "--before", "reload") == (0, [f"warning: {misspelt}"])
    checked = command("placement-manage", "config", "check", OS_PLACEMENT_CONFIG_DIR=str(tmp_path))
    assert checked.stderr.splitlines() == [f"Checking {tmp_path / 'placement.conf'}"]
    started = start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path))
    assert "STARTED 200" in started.stdout
    (line,) = [line for line in started.stdout.splitlines() if " WARNING " in line]
    assert line.endswith(misspelt)


@pytest.mark.parametrize(
    ("section", "meant"),
    [
        ("insigth", "insight"),
        ("placment_database", "placement_database"),
        ("keystone_auth_token", "keystone_authtoken"),
        ("default", "DEFAULT"),
    ],
)
def test_misspelt_section_is_neither_right_nor_started(
    check: Check, start: Command, tmp_path: Path, section: str, meant: str
) -> None:
    fault = (
        f"{tmp_path / 'placement.conf'}:6: there is no section [{section}]; did you mean [{meant}]?"
    )

    more = f"# More\n[{section}]\nenabled = true\n"
    assert check(more, "--before", "reload") == (1, [f"error: {fault}"])
    if section == "insigth":
        assert critical(start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path))).endswith(fault)


def test_sections_of_others_are_left_alone(
    check: Check, start: Command, tmp_path: Path
) -> None:
    """As deployment tools write them, and of other services that share the file."""
    names = """
        oslo_concurrency oslo_middleware oslo_policy oslo_policy_http oslo_limit oslo_reports cache
        oslo_messaging_notifications oslo_messaging_rabbit oslo_versionedobjects profiler database
        api_database placement_identity service_user keystone cors cors.subdomain nova neutron cinder
        glance ironic cyborg barbican vault wsgi ssl privsep pci coordination audit_middleware_notifications
        INSIGHT
    """
    more = "".join(f"[{name}]\n" for name in names.split())

    assert check(more) == (0, [])
    assert "STARTED 200" in start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path)).stdout


def test_log_file_in_no_directory(check: Check, tmp_path: Path) -> None:
    missing = tmp_path / "nowhere"
    for option in (f"log_file = {missing}/placement.log", f"log_dir = {missing}"):
        line = f"error: {missing} of [DEFAULT]/log_file or log_dir does not exist."
        assert check(f"[DEFAULT]\n{option}\n", "--before", "start") == (1, [line])


def test_a_configuration_of_logging_is_read(check: Check, tmp_path: Path) -> None:
    """A start would end with it; nothing is set up, and no log is opened."""
    file = tmp_path / "log.conf"
    settings = f"[DEFAULT]\nlog_config_append = {file}\n"
    place = f"error: {file} of [DEFAULT]/log_config_append"

    assert check(settings) == (1, [f"{place} cannot be read: No such file or directory."])
    file.write_text("[loggers]\nkeys\n")
    code, [line] = check(settings)
    assert code == 1 and line.startswith(f"{place} is not a configuration of Python's logging: ")
    file.write_text("[loggers]\nkeys = root\n[formatters]\nkeys =\n")
    code, [line] = check(settings)
    assert line.startswith(f"{place} has no [handlers] with keys")
    file.write_text("[loggers]\nkeys = root\n[formatters]\nkeys =\n[handlers]\nkeys =\n[logger_root]\n")
    assert check(settings) == (0, [])


def test_a_file_of_sqlite_is_not_made(check: Check, tmp_path: Path) -> None:
    """Made by root, who checks, the service could not write it."""
    file = tmp_path / "placement.db"

    assert check("", "--before", "start", url=f"sqlite:///{file}") == (
        1,
        [f'error: The database {file} does not exist. Run the "placement-manage db sync" command.'],
    )
    code, [line] = check("", url=f"sqlite:///{tmp_path}/nowhere/placement.db")
    assert code == 1
    assert f"directory of the database {tmp_path}/nowhere/placement.db does not exist" in line
    assert check("sync_on_startup = true\n", url=f"sqlite:///{file}") == (0, [])
    assert not file.exists()


def test_metrics_directory_is_looked_at_and_not_made(check: Check, tmp_path: Path) -> None:
    """Made by root, who checks, it would keep the service from starting."""
    directory = tmp_path / "run" / "metrics"
    settings = f"[insight]\nenabled = true\nmetrics_directory = {directory}\n"

    assert check(settings) == (0, [])
    assert not directory.parent.exists()

    directory.parent.write_text("")
    line = f"error: {directory.parent} of [insight]/metrics_directory is not a directory."
    assert check(settings, "--before", "start") == (1, [line])


def test_shapes_are_looked_at(check: Check, tmp_path: Path) -> None:
    """All faults at once; the service does not start with one."""
    file = tmp_path / "shapes.yaml"
    settings = f"[insight]\nenabled = true\nshapes_file = {file}\n"

    line = f"error: {file} cannot be read: No such file or directory ([insight]/shapes_file)."
    assert check(settings) == (1, [line])
    file.write_text("small: resources=VCPU:1&required=HW_CPU_X86_VMX\n")
    assert check(settings) == (0, [])
    wrong = "a: resources=VCPU:0\n'*': resources=VCPU:1\nb: 1\nc: resources=VCPU:1&limit=1\n"
    file.write_text(wrong)
    code, lines = check(settings, "--before", "reload")
    assert code == 1
    starts = [f"error: {file}:{number}: the shape {name}: " for number, name in enumerate("a*bc", 1)]
    assert len(lines) == len(starts) and all(map(str.startswith, lines, starts))
    assert "amount >= 1" in lines[0] and "limit" in lines[3]
    # Without the schema, which is ten times as long.
    assert max(map(len, lines)) < 400 + len(str(file))


@pytest.mark.parametrize(
    "link",
    [
        "https://cloud.example.org/servers/{consumer}/",
        "http://10.0.0.1:8080/?id={consumer}#of-{consumer}",
        "HTTPS://[2001:db8::1]/{consumer}",
    ],
)
def test_links_out_of_the_explorer(check: Check, link: str) -> None:
    assert check(f"[insight]\nenabled = true\nlink_consumer = {link}\n") == (0, [])


@pytest.mark.parametrize(
    "link",
    [
        "javascript:alert({consumer})//https://cloud.example.org/",
        "data:text/html,{consumer}",
        "//cloud.example.org/{consumer}",
        "https://{consumer}.example.org/",
        "https://cloud.example.org{consumer}",
        "https:///{consumer}",
        "https://me:secret@cloud.example.org/{consumer}",
        "https://cloud.example.org/servers",
        "https://cloud.example.org/{project}/{consumer}",
        "https://cloud.example.org/{{consumer}}",
        'https://cloud.example.org/"onclick="/{consumer}',
        "https://cloud.example.org/a b/{consumer}",
        "https://cloud.example.org/'/{consumer}",
        "https://cloud.example.örg/{consumer}",
        "/servers/{consumer}",
        "{consumer}",
    ],
)
def test_what_is_no_link_out_of_the_explorer(check: Check, link: str) -> None:
    """Both are named, and what may be a password is not repeated; the service does not start."""
    settings = f"[insight]\nenabled = true\nlink_consumer = {link}\nlink_project = {link}\n"
    code, lines = check(settings, "--before", "reload")
    assert code == 1
    assert [line.partition(" is not")[0] for line in lines] == [
        "error: [insight]/link_consumer",
        "error: [insight]/link_project",
    ]
    assert "secret" not in "".join(lines)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"\xff\xfe", ":1: this is not UTF-8"),
        (b"- x", ":1: a file of shapes maps names to queries; this one does not "),
        # The last one alone would be counted, under a name that another flavor has too.
        (b"a: resources=VCPU:1\n\na: resources=VCPU:2\n", ":1: the shape a is there again in line 3."),
        (b"[" * 5000, " is not YAML: maximum recursion depth"),
        (b"".join(b"s%d: resources=VCPU:1\n" % at for at in range(101)), " has 101 shapes"),
        (None, " cannot be read: Is a directory"),
    ],
    ids=["bytes", "list", "twice", "depth", "many", "directory"],
)
def test_a_file_that_holds_no_shapes_is_a_fault(
    check: Check, tmp_path: Path, text: bytes | None, fault: str
) -> None:
    """One sentence, whatever the file is."""
    file = tmp_path / "shapes.yaml"
    if text is None:
        file.mkdir()
    else:
        file.write_bytes(text)
    code, [line] = check(f"[insight]\nenabled = true\nshapes_file = {file}\n")
    assert code == 1 and fault in line and line.startswith(f"error: {file}")


# The database


@pytest.mark.parametrize("revision", ["a082b8bb98d0", "zzzzzzzzzzzz"])
def test_revision(check: Check, synced: str, revision: str) -> None:
    with opened(synced) as database:
        execute(database, f"UPDATE alembic_version SET version_num = '{revision}'")

    code, [line] = check("", "--before", "start")

    assert code == 1
    assert revision in line
    assert ("db sync" in line) == (revision == "a082b8bb98d0")


def test_unreachable_database_keeps_from_a_reload_only(check: Check) -> None:
    """A start waits for it; a reload would end what may still work."""
    url = "postgresql://placement:s3cret@127.0.0.1:9/placement"
    for before, code in (("start", 0), ("reload", 1)):
        found, [line] = check("", "--before", before, url=url)

        assert found == code
        assert "cannot be reached" in line


@contextmanager
def user_who_may_only_read(url: str) -> Iterator[str]:
    """A login of the database's server that may read the tables; yields a URL with it."""
    parsed, mysql = make_url(url), "mysql" in url
    name = f"reader_{parsed.database}"
    user = f"'{name}'@'%%'" if mysql else name
    make = f"CREATE USER {user} IDENTIFIED BY" if mysql else f"CREATE ROLE {name} LOGIN PASSWORD"
    tables = f"{parsed.database}.*" if mysql else "ALL TABLES IN SCHEMA public"
    drop = [f"DROP USER {user}"] if mysql else [f"DROP OWNED BY {name}", f"DROP ROLE {name}"]
    with opened(url) as database, database.engine.connect() as administrator:
        try:
            administrator.exec_driver_sql(f"{make} 's3cret'")
            administrator.exec_driver_sql(f"GRANT SELECT ON {tables} TO {user}")
            yield parsed.set(username=name, password="s3cret").render_as_string(hide_password=False)
        finally:
            for statement in drop:
                administrator.exec_driver_sql(statement)


def test_a_shared_database_is_told_and_no_fault(check: Check, synced: str, start: Command) -> None:
    """The start says the same, and serves."""
    told = "The OpenStack service may write to this database too, since 20"
    with opened(synced) as database:
        takeover.release(database)

    for more in ((), ("--before", "reload")):
        code, [line] = check("", *more)

        assert code == 0
        assert line.startswith(f"warning: {told}")

    started = start(synced)
    assert "STARTED 200" in started.stdout
    assert started.stdout.count(told) == 1


@AT_HEAD
@on("mysql", "postgresql")
def test_missing_rights(check: Check, start: Command, url: str) -> None:
    assert start(url).stdout.count("STARTED 200") == 1
    with user_who_may_only_read(url) as reader:
        code, [line] = check("", "--before", "start", url=reader)
        started = start(reader)

    assert code == 1
    assert "lacks rights" in line
    assert "UPDATE inventories" in line
    assert "SELECT inventories" not in line
    assert "lacks rights" in critical(started)


@pytest.mark.postgresql
def test_database_that_cannot_hold_every_name(check: Check, start: Command) -> None:
    """The check and the start say which parameter and what to do; the service starts."""
    with scratch_database("postgresql", character_set="LATIN1") as url:
        with opened(url) as database:
            schema.sync(database)
        given = f"{url}?client_encoding=latin1"
        code, lines = check("", url=given)
        started = start(given).stdout

        assert check("", "--before", "start", url=given)[0] == 0

    assert code == 1
    in_url, in_server = lines
    for line in lines:
        assert line.removeprefix("error: ") in started
    assert in_url.startswith("error: client_encoding=latin1 in the URL of the database is not")
    assert "the encoding LATIN1" in in_server
    assert "createdb --encoding=UTF8" in in_server
    assert "STARTED 200" in started


@AT_HEAD
@on("mysql")
def test_column_that_cannot_hold_every_name(check: Check, database: Database, url: str) -> None:
    narrow = "external_id VARCHAR(255) CHARACTER SET latin1 NOT NULL"
    execute(database, f"ALTER TABLE projects MODIFY {narrow}")

    code, lines = check("", url=f"{url}?charset=gbk")

    assert code == 1
    assert [line.split(" ")[1] for line in lines] == ["charset=gbk", "The"]
    assert "external_id of the table projects has the character set latin1" in lines[1]
    assert "ALTER TABLE projects CONVERT TO CHARACTER SET utf8mb4" in lines[1]
    assert len(check("", url=f"{url}?charset=utf8")[1]) == 1


# The identity service


def test_identity_service_that_does_not_let_us_in(check: Check) -> None:
    refusal = {"error": {"code": 401, "title": "Unauthorized", "message": "nobody"}}
    with identity_service(401, json.dumps(refusal).encode()) as url:
        for before, code in (("start", 0), ("reload", 1)):
            found, [line] = check(IDENTITY.format(url=url), "--before", before, auth="keystone")

            assert found == code
            assert "does not let the service log in" in line
            assert "[keystone_authtoken]" in line


def test_identity_service_that_is_away(check: Check) -> None:
    more = IDENTITY.format(url="http://127.0.0.1:9/v3")
    found, [line] = check(more, "--before", "reload", auth="keystone")

    assert found == 0
    assert "cannot be reached" in line
    assert check(more, auth="keystone")[0] == 1


@pytest.mark.parametrize("status", [429, 500, 502])
def test_identity_service_that_has_a_bad_day(check: Check, status: int) -> None:
    """A reload would replace nothing that works better."""
    with identity_service(status, b"{}") as url:
        found, [line] = check(IDENTITY.format(url=url), "--before", "reload", auth="keystone")

    assert found == 0
    assert "cannot be reached" in line


def test_identity_service_that_hangs_is_away(check: Check) -> None:
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        more = IDENTITY.format(url=f"http://127.0.0.1:{frozen.getsockname()[1]}/v3")
        found, [line] = check(f"{more}http_connect_timeout = 1\n", "--before", "reload", auth="keystone")

    assert found == 0
    assert "cannot be reached" in line


@pytest.mark.parametrize(("status", "answer"), [(404, b"{}"), (201, b"<html>")])
def test_what_is_no_identity_service(check: Check, status: int, answer: bytes) -> None:
    with identity_service(status, answer) as url:
        found, [line] = check(IDENTITY.format(url=url), "--before", "reload", auth="keystone")

    assert found == 1
    assert "is no identity service" in line
    assert "Correct the URL" in line


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("", "auth_type is not set"),
        ("[keystone]\nauth_type = password\n", "6 sets it in [keystone]: did you mean [keystone_authtoken]?"),
        ("[keystone_authtoken]\nauth_type = pasword\n", "pasword"),
        ("[keystone_authtoken]\nauth_type = password\n", "auth_url"),
        (
            "[keystone_authtoken]\nauth_section = placement_identity\n",
            "[placement_identity]/auth_type",
        ),
        *(
            (f"{IDENTITY.format(url='http://127.0.0.1:9/v3')}http_connect_timeout = {seconds}\n", "from 1 to")
            for seconds in (0, -1, 99_999_999_999_999_999)
        ),
    ],
)
def test_keystone_without_what_it_needs(
    check: Check, start: Command, tmp_path: Path, more: str, named: str
) -> None:
    """Neither checked as right nor started: every request with a token would be a 500."""
    code, [line] = check(more, "--before", "start", auth="keystone")

    assert code == 1
    assert named in line
    started = start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path), OS_API__AUTH_STRATEGY="keystone")
    assert named in critical(started)


# What a start says


def test_start_says_what_starts_in_one_line(start: Command, synced: str, tmp_path: Path) -> None:
    (tmp_path / "placement.conf").write_text(
        f"[placement_database]\nconnection = {synced}\nmax_pol_size = 3\n"
    )

    log = start(OS_PLACEMENT_CONFIG_DIR=str(tmp_path)).stdout.splitlines()

    (line,) = [line for line in log if " starts. " in line]
    assert str(tmp_path / "placement.conf") in line
    assert schema.HEAD in line
    assert "noauth2" in line
    (warning,) = [line for line in log if " WARNING " in line]
    assert "max_pol_size" in warning
    assert "did you mean max_pool_size?" in warning


def test_log_file_that_cannot_be_written_is_one_line(start: Command, synced: str) -> None:
    result = start(synced, OS_DEFAULT__LOG_FILE="/nowhere/placement.log")

    assert "/nowhere/placement.log cannot be opened" in critical(result)
