"""No request that writes is left out of the proofs: the scenes are held against the URL page.

PROMISE 14. What is no scene sends no write: every question is asked while a hold is there, and when it is
over.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import update

from docs._tools.url_page import CLAIMS, EXPLORER, INSIGHT, ROUTES
from placement.extensions.claims import tables as claims_tables
from placement.extensions.metrics import handlers as metrics
from placement.routes import PROVIDER
from placement.web.authorization import Authorizer
from placement.web.dispatch import Dispatcher, Handler
from tests.proofs.promise.claim_scenes import HELD_IN_GROUP, LOOKS, REQUESTS_OF_CLAIMS, ask
from tests.proofs.promise.scenes import CLASS, HOLDER, HOST, REQUESTS, TRAIT
from tests.proofs.promise.scheduler import LOCKS
from tests.proofs.promise.stage import Order
from tests.support.recorder import recorded
from tests.support.service import Service, running

PAGE = ROUTES | INSIGHT | CLAIMS | EXPLORER
DISPATCHER = Dispatcher(cast(Authorizer, None), PAGE)

ALSO_LOOKS = {metrics.show_metrics}
"""Metrics look for room too, and remove what is over by the same transaction. They are no scene, because
their figures are kept for a while: whether a scrape sends anything depends on the clock."""

AT_HOST = PROVIDER.format(uuid=HOST)
QUESTIONS = (
    *LOOKS.values(),
    *map(
        ask,
        (
            "",
            "/",
            "/resource_classes",
            "/resource_classes/CUSTOM_C",
            "/resource_providers",
            AT_HOST,
            f"{AT_HOST}/inventories",
            f"{AT_HOST}/inventories/VCPU",
            f"{AT_HOST}/usages",
            f"{AT_HOST}/aggregates",
            f"{AT_HOST}/allocations",
            f"{AT_HOST}/traits",
            f"/allocations/{HOLDER}",
            "/traits",
            "/traits/CUSTOM_A",
            "/usages?project_id=p",
            "/-/capacity/history?shape=small",
            "/-/metrics",
            "/-/trees",
            f"/-/trees/{HOST}",
            "/-/groups/g",
            "/-/history",
            "/-/holds",
            "/-/links",
            "/-/explorer",
            "/-/explorer/",
            "/-/explorer/explorer.css",
        ),
    ),
)
"""A request for each line of the page that changes nothing, but for holds that are over."""


def handler(order: Order) -> Handler:
    """Return what serves a request, by the page."""
    template, _ = DISPATCHER.match({"PATH_INFO": order.path.partition("?")[0]})
    minor = int(order.version.removeprefix("1."))
    return next(each.handler for each in PAGE[template][order.method] if each.serves(minor))


WRITERS = {handler(order) for scene in (*REQUESTS, *REQUESTS_OF_CLAIMS) for order in scene.orders}


def test_every_line_of_the_page_is_a_scene_or_a_question() -> None:
    """What is no question writes, so it is a scene."""
    lines = {
        (method, action.handler)
        for methods in PAGE.values()
        for method, actions in methods.items()
        for action in actions
    }
    asked = {handler(order) for order in QUESTIONS}

    assert {each for _, each in lines} == WRITERS | asked
    assert {each for method, each in lines if method != "GET"} <= WRITERS


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The service with a hold in a group, and everything else that is asked for."""
    shapes = tmp_path / "shapes.yaml"
    shapes.write_text("small: resources=VCPU:1\n")
    more = {
        "shapes_file": str(shapes),
        "metrics_per_provider": True,
        "metrics_per_consumer": True,
        "history_days": 30.0,
    }
    options = {f"insight__{name}": value for name, value in more.items()}
    with running(insight__enabled=True, **options) as made:
        for order in (*HELD_IN_GROUP, TRAIT, CLASS):
            assert order.send(made).status_int < 300
        yield made


def writes(service: Service, order: Order) -> bool:
    """Send a request; say whether it sends a statement that writes or locks."""
    with recorded(service.db) as statements:
        answer = order.send(service)
        assert answer.status_int < 400, answer.text
        assert answer.body is not None
    return any(map(LOCKS.search, statements))


@pytest.mark.parametrize("order", QUESTIONS, ids=lambda order: order.path)
def test_a_question_sends_no_write(service: Service, order: Order) -> None:
    assert not writes(service, order)


@pytest.mark.parametrize("order", QUESTIONS, ids=lambda order: order.path)
def test_a_question_that_removes_a_hold_that_is_over_is_a_scene(
    service: Service, order: Order
) -> None:
    let_end = update(claims_tables.consumer_holds).values(expires_at=1)
    service.db.write(lambda tx: tx.change(let_end))

    assert writes(service, order) == (handler(order) in WRITERS | ALSO_LOOKS)
