"""From a request to its handler, and every check before it (contract 01 section 3.5)."""

from webob import Response

from placement.web import routes
from placement.web.authorization import Authorizer
from placement.web.faults import (
    MethodNotAllowed,
    NotAcceptable,
    NotFoundHere,
    UnsupportedMediaType,
    admits_json,
)
from placement.web.request import Request
from placement.web.url_map import UrlMap

JSON = "application/json"


class Dispatcher:
    """Serves a request whose microversion is known.

    :param authorizer: asked before every handler but that of the root.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._url_map = UrlMap(routes.ROUTES)
        self._authorizer = authorizer

    def __call__(self, request: Request) -> Response:
        """Return the handler's response.

        :raises placement.errors.PlacementError: 404, 405, 406, 415, 403, or the handler's own.
        """
        action = self._action(request)
        _check_media_types(request, action)
        if action.rule is not None:
            target = action.target(request) if action.target else None
            self._authorizer.check(action.rule, request.context, target)
        return action.handler(request)

    def _action(self, request: Request) -> routes.Action:
        """Find what serves the request: 404 path, 405 method, 404 or 405 window."""
        found = self._url_map.match(request.environ.get("PATH_INFO", ""))
        if found is None:
            raise NotFoundHere()
        request.path_args = found.variables
        method = request.environ["REQUEST_METHOD"]
        actions = found.value.get(method)
        if actions is None:
            raise MethodNotAllowed(allow=", ".join(found.value))
        for action in actions:
            if action.serves(request.version.minor):
                return action
        if actions[0].media_types_first:
            _check_media_types(request, actions[0])
        raise NotFoundHere() if actions[0].below == 404 else MethodNotAllowed()


def _check_media_types(request: Request, action: routes.Action) -> None:
    if action.shows_json and not admits_json(request.environ.get("HTTP_ACCEPT", JSON)):
        raise NotAcceptable()
    if action.takes_json:
        given = request.environ.get("CONTENT_TYPE", "").split(";", 1)[0].strip()
        if given != JSON:
            raise UnsupportedMediaType(given=given or None)
