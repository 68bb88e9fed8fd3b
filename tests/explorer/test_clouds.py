"""What needs a cloud, or a configuration, of its own: groups of trees, and ways out of the page."""

from urllib.parse import quote

from playwright.sync_api import Browser, expect

from tests.explorer.stage import key, open_stage
from tests.explorer.test_access import violations
from tests.support.browser import visiting


def test_grid_is_grouped_by_aggregates_beside_one_another(browser: Browser) -> None:
    """By racks or by zones; what serves two racks is in both. Each title leads to its trees."""
    with open_stage() as stage:
        for zone, racks in (("z1", "ab"), ("z2", "cd")):
            for rack in racks:
                for number in (1, 2, 3):
                    host = f"{rack}-host{number}"
                    stage.provider(host)
                    stage.replace(host, "inventories", {"VCPU": {"total": 8}})
                    stage.replace(host, "aggregates", [key(rack), key(zone)])
        stage.provider("pool")
        stage.replace("pool", "traits", ["MISC_SHARES_VIA_AGGREGATE"])
        stage.replace("pool", "aggregates", [key("a"), key("b")])
        stage.provider("alone")
        stage.replace("d-host3", "traits", ["COMPUTE_STATUS_DISABLED"])
        stage.claim("web", "shop", a_host1={"VCPU": 4})
        with visiting(browser, stage.url) as visitor:
            visitor.come()
            page = visitor.page
            grouping = page.get_by_label("Group by")
            names = ["a-host…", "b-host…", "c-host…", "d-host…"]
            expect(grouping.locator("option")).to_have_text(
                [
                    "nothing",
                    "2 aggregates: a-host1, a-host2, …, c-host1, c-host2, …",
                    f"4 aggregates: {', '.join(names[:3])}, …",
                    "every aggregate",
                ]
            )
            grouping.select_option(index=2)
            heads = page.locator("grouped-grid header")
            expect(heads).to_have_text(
                [
                    "a-host…4 trees · 16 % cores in use",
                    "b-host…4 trees · 0 % cores in use",
                    "c-host…3 trees · 0 % cores in use",
                    "d-host…3 trees · 0 % cores in use · 1 out of service",
                    "In none of these1 tree",
                ]
            )
            expect(page.get_by_text("A tree in several of them is shown in each.")).to_be_visible()
            page.get_by_role("application", name="Grid of trees of d-host…").focus()
            page.keyboard.press("End")
            expect(page.locator("tree-grid .tip:visible")).to_have_text(
                "d-host3: 0 % cores in use, out of service"
            )
            assert violations(visitor) == []
            page.keyboard.press("Enter")
            expect(page.locator("h1")).to_contain_text("d-host3")
            page.go_back()
            heads.get_by_role("link", name="b-host…").click()
            expect(page.locator(".summary")).to_have_text("4 of 14 trees with 4 providers")
            assert "group" not in page.url
            visitor.go("#/cloud?group=*&trait=COMPUTE_STATUS_DISABLED")
            expect(heads).to_have_count(2)


def test_consumers_and_projects_lead_to_where_they_live(browser: Browser) -> None:
    """Whatever a project is called it stays a part of the path, and the page has no such link by itself."""
    links = {
        "insight__link_consumer": "https://cloud.example.org/servers/{consumer}/",
        "insight__link_project": "http://cloud.example.org/?in=here&project={project}#{project}",
    }
    odd = "javascript:\"'<b>{project}&/../$&"
    with open_stage(**links) as stage:
        stage.provider("host")
        stage.replace("host", "inventories", {"VCPU": {"total": 8}})
        for consumer, project in (("web", odd), ("up", "..")):
            stage.claim(consumer, project, host={"VCPU": 1})
        with visiting(browser, stage.url) as visitor:
            visitor.come()
            for place in (f"#/tree/{key('host')}", "#/owners", f"#/owners?consumer={key('web')}"):
                visitor.go(place)
                link = visitor.page.get_by_role("link", name=f"project {odd} where it lives")
                told = quote(odd, safe="-_.!~*'()")
                assert link.get_attribute("href") == (
                    f"http://cloud.example.org/?in=here&project={told}#{told}"
                )
                assert link.get_attribute("rel") == "noopener noreferrer"
                expect(visitor.page.get_by_role("link", name="project .. where")).to_have_count(0)
                assert violations(visitor) == [], place
            link = visitor.page.get_by_role("link", name=f"consumer {key('web')} where it lives")
            assert link.get_attribute("href") == f"https://cloud.example.org/servers/{key('web')}/"
            with visitor.page.context.expect_page() as opened:
                visitor.page.context.route("**/cloud.example.org/**", lambda route: route.abort())
                link.focus()
                visitor.page.keyboard.press("Enter")
            opened.value.close()
