"""The named requests of ``[insight]/shapes_file`` (specification 07 section 3.1)."""

import re
from collections.abc import Mapping
from pathlib import Path

from oslo_config import cfg

from placement import errors
from placement.advice import NotConfigured
from placement.conf import yaml_file
from placement.extensions.questions import schemas
from placement.handlers import candidate_query
from placement.search.request import CandidateRequest
from placement.web.microversion import MAXIMUM
from placement.web.request import Request

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
Shapes = Mapping[str, CandidateRequest]
"""Requests by name."""

MOST = 100
"""The most shapes: each costs as much work as a request."""


def read(conf: cfg.ConfigOpts) -> dict[str, CandidateRequest]:
    """Return the shapes by name; without a file there are none.

    :raises NotConfigured: the file has faults; with a sentence for each.
    """
    path = conf.insight.shapes_file
    if not path:
        return {}
    try:
        given, lines = yaml_file.read(Path(path), "a file of shapes maps names to queries")
    except yaml_file.Unusable as error:
        raise NotConfigured(f"{error} ([insight]/shapes_file).") from error
    if len(given) > MOST:
        raise NotConfigured(
            f"{path} of [insight]/shapes_file has {len(given)} shapes, and at most {MOST} are allowed."
        )
    shapes: dict[str, CandidateRequest] = {}
    faults = []
    for name, query in given.items():
        first, *others = lines.get(str(name), [1])
        place = f"{path}:{first}: the shape {name}"
        if others:
            faults.append(f"{place} is there again in line {others[0]}.")
        try:
            shapes[name] = _read_request(conf, name, query)
        except ValueError as error:
            faults.append(f"{place}: {error}.")
        except errors.PlacementError as error:
            # The error names the rule only: the schema would follow, which is long and meant for programs.
            sentence = str(error).partition("\n\nFailed validating")[0]
            faults.append(f"{place}: {' '.join(sentence.split())}")
    if faults:
        raise NotConfigured(*faults)
    return shapes


def _read_request(conf: cfg.ConfigOpts, name: object, query: object) -> CandidateRequest:
    """Read a query as ``GET /-/capacity`` reads its own at the newest microversion."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise ValueError("a name has up to 64 letters, digits, and _ . - after the first")
    if not isinstance(query, str):
        raise ValueError("a query is a text such as resources=VCPU:1,MEMORY_MB:2048")
    request = Request.blank("/")
    request.conf = conf
    checked = candidate_query.check(request, schemas.SHAPE.at(MAXIMUM.minor), query)
    return candidate_query.parse(checked, MAXIMUM, conf.placement)
