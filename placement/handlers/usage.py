"""/resource_providers/{uuid}/usages and /usages (specification 02 section 9)."""

from collections.abc import Mapping
from typing import Any

from webob import Response

from placement.objects import inventory, usage
from placement.schemas import allocation as schemas
from placement.web.request import Request
from placement.web.response import json_response, now

GROUPS_SINCE = (1, 38)


def show_provider_usages(request: Request) -> Response:
    """GET /resource_providers/{uuid}/usages"""
    found = inventory.of_provider(request.db, request.path_args["uuid"])
    used = {record.class_name: record.used for record in found.records}
    body = {"resource_provider_generation": found.generation, "usages": used}
    return json_response(request, body, last_modified=now())


def policy_target(request: Request) -> Mapping[str, Any]:
    """Return what the policy of GET /usages is asked about: the project as it was sent.

    A query without a project has an empty target, not a project called None.
    """
    project = request.query_value("project_id")
    return {} if project is None else {"project_id": project}


def show_usages(request: Request) -> Response:
    """GET /usages"""
    query = request.read_query(schemas.USAGES_QUERY.at(request.version.minor))
    project, user = query["project_id"], query.get("user_id")
    shown: Mapping[str, Any]
    if request.version < GROUPS_SINCE:
        everything = usage.by_group(request.db, project, user, usage.ALL).get(usage.ALL)
        shown = everything.used_by_class if everything else {}
    else:
        groups = usage.by_group(request.db, project, user, query.get("consumer_type"))
        shown = {
            name: {"consumer_count": group.consumer_count, **group.used_by_class}
            for name, group in groups.items()
        }
    return json_response(request, {"usages": shown}, last_modified=now())
