"""The whole URL map on one page: path, method, microversion window, policy rule, function.

``shows`` answers a GET with a body (Accept is checked), ``takes`` needs a JSON body (Content-Type
is checked), ``acts`` does neither. ``since`` and ``until`` are minor versions, both inclusive.
Below the page: how a request finds its line on it, and what is checked on the way.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from routes import Mapper
from webob import Response

from placement import telemetry
from placement.handlers import (
    aggregate,
    allocation,
    allocation_candidate,
    capacity,
    explain,
    explorer,
    inventory,
    metrics,
    reshaper,
    resource_class,
    resource_provider,
    root,
    trait,
    tree,
    usage,
    what_if,
)
from placement.web.action import Action, Actions, acts, shows, takes
from placement.web.authorization import Authorizer
from placement.web.error_responses import MethodNotAllowed, NotFoundHere
from placement.web.request import Request
from placement.web.request_log import Environ

VARIABLE = re.compile(r"\{(\w+)\}")
# The library's own pattern is not greedy: it matches the same, and takes half as long again.
ONE_SEGMENT = r"{\1:[^/]+}"

PROVIDER = "/resource_providers/{uuid}"

ROUTES: dict[str, dict[str, Actions]] = {
    "": {"GET": acts(root.get_versions, None)},
    "/": {"GET": acts(root.get_versions, None)},
    "/resource_classes": {
        "GET": shows(resource_class.list_classes, "resource_classes:list", since=2),
        "POST": takes(resource_class.create_class, "resource_classes:create", since=2),
    },
    "/resource_classes/{name}": {
        "GET": shows(resource_class.show_class, "resource_classes:show", since=2),
        "PUT": takes(resource_class.rename_class, "resource_classes:update", since=2, until=6)
        + acts(resource_class.ensure_class, "resource_classes:update", since=7),
        "DELETE": acts(resource_class.delete_class, "resource_classes:delete", since=2),
    },
    "/resource_providers": {
        "GET": shows(resource_provider.list_providers, "resource_providers:list"),
        "POST": takes(resource_provider.create_provider, "resource_providers:create"),
    },
    PROVIDER: {
        "GET": shows(resource_provider.show_provider, "resource_providers:show"),
        "PUT": takes(resource_provider.update_provider, "resource_providers:update"),
        "DELETE": acts(resource_provider.delete_provider, "resource_providers:delete"),
    },
    PROVIDER + "/inventories": {
        "GET": shows(inventory.list_inventories, "resource_providers:inventories:list"),
        "POST": takes(inventory.create_inventory, "resource_providers:inventories:create"),
        "PUT": takes(inventory.replace_inventories, "resource_providers:inventories:update"),
        "DELETE": acts(
            inventory.delete_inventories,
            "resource_providers:inventories:delete",
            since=5,
            below=405,
        ),
    },
    PROVIDER + "/inventories/{resource_class}": {
        "GET": shows(inventory.show_inventory, "resource_providers:inventories:show"),
        "PUT": takes(inventory.update_inventory, "resource_providers:inventories:update"),
        "DELETE": acts(inventory.delete_inventory, "resource_providers:inventories:delete"),
    },
    PROVIDER + "/usages": {
        "GET": shows(usage.show_provider_usages, "resource_providers:usages"),
    },
    PROVIDER + "/aggregates": {
        "GET": shows(
            aggregate.list_aggregates,
            "resource_providers:aggregates:list",
            since=1,
            media_types_first=True,
        ),
        "PUT": takes(
            aggregate.replace_aggregates,
            "resource_providers:aggregates:update",
            since=1,
            media_types_first=True,
        ),
    },
    PROVIDER + "/allocations": {
        "GET": shows(allocation.show_provider_allocations, "resource_providers:allocations:list"),
    },
    PROVIDER + "/traits": {
        "GET": shows(trait.list_provider_traits, "resource_providers:traits:list", since=6),
        "PUT": takes(trait.replace_provider_traits, "resource_providers:traits:update", since=6),
        "DELETE": acts(trait.delete_provider_traits, "resource_providers:traits:delete", since=6),
    },
    "/allocations": {
        "POST": takes(allocation.replace_many_allocations, "allocations:manage", since=13),
    },
    "/allocations/{consumer_uuid}": {
        "GET": shows(allocation.show_consumer_allocations, "allocations:list"),
        "PUT": takes(allocation.replace_consumer_allocations, "allocations:update"),
        "DELETE": acts(allocation.delete_consumer_allocations, "allocations:delete"),
    },
    "/allocation_candidates": {
        "GET": shows(allocation_candidate.list_candidates, "allocation_candidates:list", since=10),
    },
    "/traits": {
        "GET": shows(trait.list_traits, "traits:list", since=6),
    },
    "/traits/{name}": {
        "GET": acts(trait.show_trait, "traits:show", since=6),
        "PUT": acts(trait.ensure_trait, "traits:update", since=6),
        "DELETE": acts(trait.delete_trait, "traits:delete", since=6),
    },
    "/usages": {
        "GET": shows(usage.show_usages, "usages", since=9, target=usage.policy_target),
    },
    "/reshaper": {
        "POST": takes(reshaper.reshape, "reshaper:reshape", since=30),
    },
}

INSIGHT: dict[str, dict[str, Actions]] = {
    "/-/capacity": {"GET": shows(capacity.capacity, "insight:capacity", since=10)},
    "/-/explain": {"GET": shows(explain.explain, "insight:explain", since=10)},
    "/-/metrics": {"GET": acts(metrics.show_metrics, "insight:metrics", public="metrics")},
    "/-/trees": {"GET": shows(tree.list_trees, "insight:trees")},
    "/-/trees/{uuid}": {"GET": shows(tree.show_tree, "insight:trees")},
    "/-/what-if": {"POST": takes(what_if.try_out, "insight:what_if", since=10)},
}
"""What operators ask beside the compatible API (specification 07), there if ``[insight]/enabled``."""

EXPLORER: dict[str, dict[str, Actions]] = {
    "/-/explorer": {"GET": acts(explorer.lead_to_page, None)},
    "/-/explorer/": {"GET": acts(explorer.show_file, None)},
    "/-/explorer/{path:.+}": {"GET": acts(explorer.show_file, None)},
}
"""Static files, which hold no data and ask for no rule (specification 07 section 7); there with INSIGHT."""


BESIDE = "/-/"
"""How the paths of INSIGHT and EXPLORER begin; no path of the compatible API does."""


class Dispatcher:
    """Serves a request whose microversion is known.

    The order of the checks is observable (specification 01 section 3.5): path 404, method 405, window
    404 or 405, Accept 406, Content-Type 415, policy 403, and only then the handler.

    :param authorizer: asked before every handler but that of the root.
    :param public: what ``[insight]/public`` names.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        routes: Mapping[str, Mapping[str, Actions]] = ROUTES,
        public: Collection[str] = (),
    ) -> None:
        self._authorizer = authorizer
        self._routes = routes
        self._public = public
        # What stands beside the compatible API is not looked at for the requests of that.
        self._beside = _mapper(each for each in routes if each.startswith(BESIDE))
        self._mapper = _mapper(each for each in routes if not each.startswith(BESIDE))

    def __call__(self, request: Request) -> Response:
        """Return the handler's response.

        :raises placement.errors.PlacementError: 404, 405, 406, 415, 403, or the handler's own.
        """
        action = self._action(request)
        action.check_media_types(request)
        if action.rule is not None and action.public not in self._public:
            target = action.target(request) if action.target else None
            self._authorizer.check(action.rule, request.context, target)
        return action.handler(request)

    def _action(self, request: Request) -> Action:
        template, request.path_args = self.match(request.environ)
        telemetry.routed(template)
        methods = self._routes[template]
        actions = methods.get(request.environ["REQUEST_METHOD"])
        if actions is None:
            raise MethodNotAllowed(allow=", ".join(methods))
        for action in actions:
            if action.serves(request.version.minor):
                return action
        if actions[0].media_types_first:
            actions[0].check_media_types(request)
        raise NotFoundHere() if actions[0].below == 404 else MethodNotAllowed()

    def match(self, environ: Environ) -> tuple[str, dict[str, str]]:
        """Return the template on the page that PATH_INFO fits, and its variables.

        Exact and case-sensitive; a variable stands for one or more characters other than ``/``
        (specification 01 section 3.2). A variable written with a pattern, ``{path:.+}``, stands for what
        the pattern says. Cost of a request: 4 to 11 microseconds, the more the further down its line
        stands among those with the same beginning.

        :param environ: of WSGI: the path is percent-decoded, one character per byte.
        :raises NotFoundHere: 404
        """
        path = _nameable(environ.get("PATH_INFO", ""))
        mapper = self._beside if path.startswith(BESIDE) else self._mapper
        found = mapper.routematch(path, environ)
        if found is None:
            raise NotFoundHere()
        variables, route = found
        return route.name, variables


def _mapper(templates: Iterable[str]) -> Mapper:
    mapper = Mapper(controller_scan=None, register=False)
    for template in templates:
        mapper.connect(template, VARIABLE.sub(ONE_SEGMENT, template))
    mapper.create_regs()
    return mapper


def _nameable(path: str) -> str:
    """Replace what no stored name or uuid contains (not ASCII, control characters) by ``?``.

    The result still names nothing, whatever the collation or the NUL handling of the database; and
    no pattern meets the line break that its ``$`` would overlook.
    """
    if path.isascii() and path.isprintable():
        return path
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in path)
