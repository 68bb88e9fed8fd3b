"""Real tokens of a real Keystone against auth_strategy=keystone (specification 01 sections 13.1, 14.2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, expect

from tests.operations.e2e.openstack_cli import Shell
from tests.support import deployment
from tests.support.browser import Visitor
from tests.support.deployment import Site
from tests.support.keystone import MIDDLEWARE, PASSWORD, Keystone
from tests.support.processes import ENDS_S, free_port, public_folder, wait_until

pytestmark = [pytest.mark.deploy, pytest.mark.xdist_group("keystone")]

OWN, OTHER = "own", "other"
PROXY = ("proxy", "proxy_uwsgi")

@dataclass(frozen=True)
class Cloud:
    """A Keystone with people in it, and the service that asks it."""

    keystone: Keystone
    site: Site
    projects: dict[str, str]

    def request(
        self, token: str | None, method: str, path: str, *, json: object = None, **headers: str
    ) -> requests.Response:
        """Send a request at the newest microversion; header names have underscores for dashes."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["OpenStack-API-Version"] = "placement latest"
        if token is not None:
            sent["X-Auth-Token"] = token
        return requests.request(method, self.site.url + path, headers=sent, json=json, timeout=ENDS_S)

    def row(self, token: str) -> tuple[int, int, int, int]:
        """Return the statuses of the columns of the table in specification 01 section 14.2.

        A reshape that says nothing is 400, once the policy has let it through.
        """
        return (
            self.request(token, "POST", "/reshaper", json={}).status_code,
            self.request(token, "GET", f"/usages?project_id={self.projects[OWN]}").status_code,
            self.request(token, "GET", f"/usages?project_id={self.projects[OTHER]}").status_code,
            self.request(token, "GET", "/resource_providers").status_code,
        )


def serve(folder: Path, identity_url: str, more: str = "") -> dict[str, str]:
    settings = MIDDLEWARE.format(url=identity_url, password=PASSWORD)
    database = f"sqlite:///{folder}/placement.sqlite"
    return deployment.prepare(folder, database, settings + more, auth="keystone")


@pytest.fixture(scope="module")
def cloud(keystone: Keystone) -> Iterator[Cloud]:
    with public_folder("placement-e2e-") as folder:
        projects = {name: keystone.create_project(name) for name in (OWN, OTHER)}
        keystone.call("POST", "/roles", {"role": {"name": "stranger"}})
        for role in ("admin", "service", "reader", "member", "stranger"):
            keystone.create_user(f"the {role}", {projects[OWN]: role})
        chief = keystone.create_user("the chief", {projects[OWN]: "admin"})
        for scope in ("system", "domains/default"):
            keystone.call("PUT", f"/{scope}/users/{chief}/roles/{keystone.role('admin')}")
        insight = "[insight]\nenabled = true\n"
        with deployment.builtin(folder, serve(folder, keystone.url, insight)) as site:
            keystone.create_endpoint("placement", site.url)
            yield Cloud(keystone, site, projects)


@pytest.mark.parametrize(
    ("role", "row"),
    [
        ("admin", (403, 200, 200, 200)),
        ("service", (400, 200, 200, 200)),
        ("reader", (403, 200, 403, 403)),
        # A real token of a member implies reader.
        ("member", (403, 200, 403, 403)),
        ("stranger", (403, 403, 403, 403)),
    ],
)
def test_what_a_role_may_do(cloud: Cloud, role: str, row: tuple[int, ...]) -> None:
    assert cloud.row(cloud.keystone.token(f"the {role}", project=OWN)) == row


@pytest.mark.parametrize("scope", ["system", "domain", "none"])
def test_only_tokens_of_a_project_are_good(cloud: Cloud, scope: str) -> None:
    """The chief may do everything in a project, and nothing in any other scope."""
    chief = "the chief"
    token = {
        "system": lambda: cloud.keystone.token(chief, system=True),
        "domain": lambda: cloud.keystone.token(chief, domain="default"),
        "none": lambda: cloud.keystone.token(chief),
    }[scope]()
    assert cloud.row(token) == (403, 403, 403, 403)
    assert cloud.row(cloud.keystone.token(chief, project=OWN)) == (403, 200, 200, 200)


def test_an_admin_may_reshape_under_the_deprecated_defaults(cloud: Cloud) -> None:
    more = "[oslo_policy]\nenforce_new_defaults = false\n"
    with public_folder("placement-e2e-") as folder:
        environment = serve(folder, cloud.keystone.url, more)
        with deployment.builtin(folder, environment) as site:
            lenient = Cloud(cloud.keystone, site, cloud.projects)
            assert lenient.row(cloud.keystone.token("the admin", project=OWN))[0] == 400


def check_unauthorized(answer: requests.Response) -> None:
    """The answer is the 401 of keystonemiddleware."""
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Keystone uri="http://identity.example.com/v3"'
    assert answer.json() == {
        "error": {
            "code": 401,
            "title": "Unauthorized",
            "message": "The request you have made requires authentication.",
        }
    }


@pytest.mark.parametrize("token", [None, "", "garbage", "admin", "gAAAAAB" + "x" * 180, "é"])
def test_what_is_no_token_is_refused(cloud: Cloud, token: str | None) -> None:
    sent = token.encode().decode("latin-1") if token else token
    check_unauthorized(cloud.request(sent, "GET", "/resource_providers"))


def test_a_token_that_is_altered_is_refused(cloud: Cloud) -> None:
    token = cloud.keystone.token("the admin", project=OWN)
    middle = len(token) // 2
    other = "A" if token[middle] != "A" else "B"
    altered = token[:middle] + other + token[middle + 1 :]
    check_unauthorized(cloud.request(altered, "GET", "/resource_providers"))


def test_a_revoked_token_is_refused(cloud: Cloud) -> None:
    token = cloud.keystone.token("the admin", project=OWN)
    requests.delete(
        f"{cloud.keystone.url}/auth/tokens",
        headers={"X-Auth-Token": token, "X-Subject-Token": token},
        timeout=ENDS_S,
    )
    check_unauthorized(cloud.request(token, "GET", "/resource_providers"))


def test_a_token_ends_with_its_lifetime(cloud: Cloud) -> None:
    """Also one that the service has seen, and remembers as valid."""
    for lifetime_s in (4, 16, 64):
        with cloud.keystone.issuing_short_tokens(lifetime_s=lifetime_s) as hasty:
            token = hasty.token("the admin", project=OWN)
            if cloud.request(token, "GET", "/resource_providers").status_code == 200:
                break  # On a busy machine a token may end before it is used.
    else:
        pytest.fail("no token was valid")
    wait_until(
        "the token has ended",
        lambda: cloud.request(token, "GET", "/resource_providers").status_code != 200,
        timeout_s=lifetime_s + 30.0,
    )
    check_unauthorized(cloud.request(token, "GET", "/resource_providers"))


def test_identity_headers_of_a_client_count_for_nothing(cloud: Cloud) -> None:
    smuggled = {
        "X_Roles": "admin,service", "X_Role": "admin", "X_User_Id": "root",
        "X_Project_Id": cloud.projects[OTHER], "X_Identity_Status": "Confirmed",
        "OpenStack_System_Scope": "all", "X_Is_Admin_Project": "True",
    }  # fmt: skip
    reader = cloud.keystone.token("the reader", project=OWN)
    path = f"/usages?project_id={cloud.projects[OTHER]}"
    check_unauthorized(cloud.request(None, "GET", "/resource_providers", **smuggled))
    assert cloud.request(reader, "GET", "/resource_providers", **smuggled).status_code == 403
    assert cloud.request(reader, "GET", path, **smuggled).status_code == 403
    admin = cloud.keystone.token("the admin", project=OWN)
    demoted = {"OpenStack_System_Scope": "all", "X_Roles": "reader"}
    assert cloud.request(admin, "GET", "/resource_providers", **demoted).status_code == 200


def shell_of(cloud: Cloud, user: str) -> Shell:
    """Return the command as in a cloud: the password, the catalogue and the endpoint are real."""
    return Shell(
        {
            "OS_AUTH_TYPE": "password",
            "OS_AUTH_URL": cloud.keystone.url,
            "OS_USERNAME": user,
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": OWN,
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_PLACEMENT_API_VERSION": "1.39",
        }
    )


def test_the_command_finds_the_service_in_the_catalogue(cloud: Cloud) -> None:
    shell_of(cloud, "the admin").run("openstack resource provider create found-in-the-catalogue")
    refused = shell_of(cloud, "the reader").fail("openstack resource provider list")
    assert "Policy does not allow" in refused


def test_an_operator_is_told_why_and_a_reader_is_not(cloud: Cloud) -> None:
    """The commands of specification 07 section 8 ask with a real token, and the policy counts."""
    operator, reader = shell_of(cloud, "the admin"), shell_of(cloud, "the reader")
    host = operator.ask("openstack resource provider create explained")["uuid"]
    operator.run(f"openstack resource provider inventory set {host} --resource VCPU=8")
    explain = "openstack allocation candidate explain --resource VCPU=9 --about explained"

    told = operator.ask(explain)

    assert told["candidates"] == {"count": 0, "complete": True}
    assert told["largest"][0]["would_do"] == 8
    assert told["about"]["verdict"].startswith("explained cannot take this: VCPU has 8 free of 9")
    drained = operator.ask("openstack resource provider drain check explained")
    assert drained == {"homeless": [], "complete": True}
    assert "placement:insight:explain" in reader.fail(explain)


def test_the_explorer_is_published_behind_apache(cloud: Cloud, browser: Browser) -> None:
    """As docs/howto/explorer.rst says; who may look is Keystone's word and the policy's."""
    admin, reader = (
        cloud.keystone.token(f"the {role}", project=OWN) for role in ("admin", "reader")
    )
    more = "[insight]\nenabled = true\npublic = explorer\n"
    with (
        public_folder("placement-e2e-") as folder,
        deployment.uwsgi(folder, serve(folder, cloud.keystone.url, more)),
        deployment.apache(
            folder, {}, deployment.shipped("apache/placement-uwsgi.conf", folder), *PROXY
        ) as site,
    ):
        published = Cloud(cloud.keystone, site, cloud.projects)
        made = published.request(admin, "POST", "/resource_providers", json={"name": "host 7"})
        assert made.status_code == 200
        assert published.request(None, "GET", "/-/trees").status_code == 401
        visitor = Visitor(browser.new_page(), site.url)
        visitor.come(f"#/tree/{made.json()['uuid']}", token=admin)
        expect(visitor.page.locator("h1")).to_contain_text("host 7")

        visitor.page.get_by_role("button", name="Forget token").click()
        visitor.page.get_by_label("Token").fill(reader)
        visitor.page.keyboard.press("Enter")
        expect(
            visitor.page.get_by_role("heading", name="Your token may not do this")
        ).to_be_visible()
        expect(visitor.page.locator("main")).to_contain_text("placement:insight:trees")
        visitor.page.close()
        assert visitor.mistakes == []


def test_the_root_asks_for_no_token(cloud: Cloud) -> None:
    answer = cloud.request(None, "GET", "/")
    assert answer.json()["versions"][0]["id"] == "v1.0"


def test_a_keystone_that_is_gone_is_503(cloud: Cloud) -> None:
    token = cloud.keystone.token("the admin", project=OWN)
    with public_folder("placement-e2e-") as folder:
        environment = serve(folder, f"http://127.0.0.1:{free_port()}/v3")
        with deployment.builtin(folder, environment) as site:
            lonely = Cloud(cloud.keystone, site, cloud.projects)
            assert lonely.request(token, "GET", "/resource_providers").status_code == 503
