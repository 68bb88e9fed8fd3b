"""The sample files say what the code does (specification 06 section 11)."""

import re
import sys
from pathlib import Path

import pytest

from placement import conf as configuration
from placement import policies
from tests.support.processes import ran

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GROUPS = (
    "DEFAULT", "api", "cors", "healthcheck", "keystone_authtoken", "oslo_middleware", "oslo_policy",
    "placement", "placement_database", "profiler", "workarounds",
)  # fmt: skip


def generated(*arguments: str) -> str:
    return ran([BIN / arguments[0], *arguments[1:]], cwd=ROOT, check=True).stdout


def blocks(text: str) -> set[str]:
    """Split a sample into its paragraphs; comments between them are of no namespace."""
    return {block.strip() for block in text.split("\n\n") if re.search(r"^#\w+ =", block, re.M)}


def test_configuration_sample_is_current() -> None:
    """Ours to the letter; the libraries' parts may be of another release of theirs."""
    sample = (ROOT / "etc" / "placement.conf.sample").read_text()

    ours = blocks(
        generated("oslo-config-generator", "--namespace", "placement.conf", "--wrap-width", "79")
    )

    count = sum(len(options) for _, options in configuration.list_opts())
    assert len(ours) == count
    assert ours - blocks(sample) == set()
    for group in GROUPS:
        assert sample.count(f"[{group}]\n") == 1, group
    # The libraries' as this service has them.
    assert "#allow_methods = GET,PUT,POST,DELETE,PATCH\n" in sample
    assert ",routes=INFO," in sample
    assert "#http_connect_timeout = 5\n" in sample
    assert str(ROOT) not in sample


def test_deployment_tools_find_what_the_samples_are_made_from(tmp_path: Path) -> None:
    """Kolla copies ``etc/placement/*`` and names both files there; each generates its sample."""
    for tool, made_from, name in (
        ("oslo-config-generator", "config-generator.conf", "placement.conf.sample"),
        ("oslopolicy-sample-generator", "policy-generator.conf", "policy.yaml.sample"),
    ):
        made = tmp_path / name
        generated(tool, "--config-file", f"etc/placement/{made_from}", "--output-file", str(made))
        sample = (ROOT / "etc" / name).read_text()
        assert f"output_file = etc/{name}\n" in (ROOT / "etc" / "placement" / made_from).read_text()
        # The libraries' parts may be of another release of theirs.
        assert ("[placement_database]" in made.read_text()) == ("[placement_database]" in sample)
        assert name == "placement.conf.sample" or made.read_text() == sample


def test_deployment_tools_check_a_configuration(tmp_path: Path) -> None:
    """Kolla's check refuses what is not an option, by the same file."""
    conf = tmp_path / "placement.conf"
    asked = ("--config-file", "etc/placement/config-generator.conf", "--input-file", str(conf))
    conf.write_text("[placement_database]\nconnection = sqlite://\n")
    generated("oslo-config-validator", *asked)

    conf.write_text("[placement_database]\nconection = sqlite://\n")
    with pytest.raises(AssertionError):
        generated("oslo-config-validator", *asked)


def test_policy_sample_is_current() -> None:
    """That the generator makes it so is tested above."""
    sample = (ROOT / "etc" / "policy.yaml.sample").read_text()
    rule = re.compile(r'^#"([^"]+)": "([^"]*)"$', re.M)

    expected = {found.name: found.check_str for found in policies.list_rules()}
    assert dict(rule.findall(sample)) == expected


def test_policy_commands_find_the_service() -> None:
    assert generated("oslopolicy-list-redundant", "--namespace", "placement") == ""
    merged = generated("oslopolicy-policy-generator", "--namespace", "placement")
    assert '"placement:reshaper:reshape": "rule:service_api"' in merged


def test_policy_commands_read_the_configuration_that_they_are_given(tmp_path: Path) -> None:
    """Here the directory of a service that runs with OS_PLACEMENT_CONFIG_DIR."""
    (tmp_path / "placement.conf").write_text("[oslo_policy]\npolicy_file = rules.yaml\n")
    (tmp_path / "rules.yaml").write_text(
        '"placement:traits:list": "role:auditor"\n"placement:traits:show": "rule:admin_or_service_api"\n'
    )
    for given in ("--config-dir", tmp_path), ("--config-file", tmp_path / "placement.conf"):
        asked = ("--namespace", "placement", *map(str, given))
        merged = generated("oslopolicy-policy-generator", *asked)
        redundant = generated("oslopolicy-list-redundant", *asked)

        assert '"placement:traits:list": "role:auditor"' in merged
        assert redundant == '"placement:traits:show": "rule:admin_or_service_api"\n'
