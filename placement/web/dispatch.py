"""The words of the URL page, and the dispatch of a request to its line there."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from routes import Mapper
from webob import Response

from placement import authorship, errors, telemetry
from placement.authorship import Author
from placement.db import freshness
from placement.web.authorization import Authorizer
from placement.web.error_responses import (
    CODES_SINCE,
    MethodNotAllowed,
    NotAcceptable,
    NotFoundHere,
    UnsupportedMediaType,
    admits_json,
)
from placement.web.near_names import add_near_names
from placement.web.request import Request
from placement.web.request_log import Environ

JSON = "application/json"

Handler = Callable[[Request], Response]
Target = Callable[[Request], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Action:
    """The handler of one method of one path within a window of microversions.

    :param rule: the policy rule without ``placement:``; None where no rule is asked.
    :param shows_json: whether the answer has a body, so that Accept must admit JSON.
    :param takes_json: whether the request must have a body of Content-Type ``application/json``.
    :param media_types_first: whether these two are checked before the window.
    :param below: the status of an answer outside the window.
    :param public: the word in ``[insight]/public`` that serves it without a token and a rule.
    :param target: the target of the policy, if not the caller's own project and user.
    """

    handler: Handler
    rule: str | None
    since: int = 0
    until: int | None = None
    shows_json: bool = False
    takes_json: bool = False
    media_types_first: bool = False
    below: int = 404
    public: str | None = None
    target: Target | None = None

    def serves(self, minor: int) -> bool:
        """Return whether the minor version is in the window."""
        return self.since <= minor and (self.until is None or minor <= self.until)

    def check_media_types(self, request: Request) -> None:
        """Refuse a client that does not accept JSON, or does not send it (406, 415)."""
        if self.shows_json and not admits_json(request.environ.get("HTTP_ACCEPT", JSON)):
            raise NotAcceptable()
        if self.takes_json:
            given = request.environ.get("CONTENT_TYPE", "").split(";", 1)[0].strip()
            if given != JSON:
                raise UnsupportedMediaType(given=given or None)


Actions = tuple[Action, ...]


def acts(handler: Handler, rule: str | None, **more: Any) -> Actions:
    """Return actions whose requests and answers have no body."""
    return (Action(handler, rule, **more),)


shows = partial(acts, shows_json=True)
"""Answer with a JSON body."""

takes = partial(acts, takes_json=True)
"""Read a JSON body."""


class Dispatcher:
    """The layer that serves a request whose microversion is known.

    The order of the checks is observable (specification 01 section 3.5).

    :param public: the words in ``[insight]/public``.
    """

    def __init__(
        self,
        authorizer: Authorizer,
        routes: Mapping[str, Mapping[str, Actions]],
        public: Collection[str] = (),
    ) -> None:
        self._authorizer = authorizer
        self._routes = routes
        self._public = public
        self._mapper = Mapper(controller_scan=None, register=False)
        for template in routes:
            self._mapper.connect(template, template)
        self._mapper.create_regs()

    def __call__(self, request: Request) -> Response:
        """Return the handler's response."""
        action = self._find_action(request)
        # This check precedes the policy: a client learns without the right to use the route that its media
        # type is not accepted.
        action.check_media_types(request)
        if action.rule is not None and action.public not in self._public:
            target = action.target(request) if action.target else None
            self._authorizer.check(action.rule, request.context, target)
        request.authorize = partial(self._authorizer.check, context=request.context, target=None)
        try:
            if not request.db.watchers:
                return _serve(action.handler, request)
            with authorship.acting(_name_author(request)):
                return _serve(action.handler, request)
        except errors.BadRequest as refused:
            if request.version >= CODES_SINCE:
                add_near_names(refused, request.db)
            raise

    def _find_action(self, request: Request) -> Action:
        template, request.path_args = self.match(request.environ)
        request.route = template
        # The route is set before the method is checked, so that a refused request counts for its path.
        telemetry.current().route = template or "/"
        methods = self._routes[template]
        actions = methods.get(request.environ["REQUEST_METHOD"])
        if actions is None:
            raise MethodNotAllowed(allow=", ".join(methods))
        for action in actions:
            if action.serves(request.version.minor):
                return action
        if actions[0].media_types_first:
            actions[0].check_media_types(request)
        # Some older versions have the path but not this method, and report that: DELETE of all inventories.
        raise NotFoundHere() if actions[0].below == 404 else MethodNotAllowed()

    def match(self, environ: Environ) -> tuple[str, dict[str, str]]:
        """Return the template on the page that PATH_INFO fits, and its variables.

        Exact and case-sensitive; a variable stands for one or more characters other than ``/``
        (specification 01 section 3.2), one with a pattern, ``{path:.+}``, for what the pattern says.
        """
        path = environ.get("PATH_INFO", "")
        if not (path.isascii() and path.isprintable()):
            # No stored name or uuid has such characters. With "?" instead, the path still names nothing,
            # regardless of how the database's collation compares them or treats a NUL.
            path = "".join(c if c.isascii() and c.isprintable() else "?" for c in path)
        found = self._mapper.routematch(path, environ)
        if found is None:
            raise NotFoundHere()
        variables, route = found
        return route.name, variables


def _serve(handler: Handler, request: Request) -> Response:
    for _ in freshness.rounds():
        try:
            return handler(request)
        except errors.Conflict as refused:
            # Expired allocations are removed first, so that no request is refused because of them
            # (specification 09 section 5).
            if not (refused.is_amid_expired and freshness.remove_expired(request.db)):
                raise
    return handler(request)


def _name_author(request: Request) -> Author:
    context = request.context
    return Author(
        request_id=request.environ.get("openstack.request_id") or "",
        global_request_id=request.environ.get("openstack.global_request_id"),
        user=context.user_id or "",
        project=context.project_id or "",
        method=request.environ["REQUEST_METHOD"],
        route=request.route,
    )
