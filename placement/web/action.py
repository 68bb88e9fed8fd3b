"""What serves one method of one path: the words in which the URL page is written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from webob import Response

from placement.web.error_responses import NotAcceptable, UnsupportedMediaType, admits_json
from placement.web.request import Request

JSON = "application/json"

Handler = Callable[[Request], Response]
Target = Callable[[Request], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Action:
    """What serves one method of one path within a window of microversions.

    :param rule: the policy rule without ``placement:``; None only where everybody may.
    :param shows_json: the answer has a body, so Accept must admit JSON.
    :param takes_json: the request must have a body of Content-Type ``application/json``.
    :param media_types_first: these two are looked at before the window.
    :param below: status of an answer outside the window.
    :param public: the word of ``[insight]/public`` that serves it without a token and a rule.
    :param target: what the policy is asked about, if not the caller's own project and user.
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
        """The minor version lies in the window."""
        return self.since <= minor and (self.until is None or minor <= self.until)

    def check_media_types(self, request: Request) -> None:
        """Return if the client takes what is shown and sends what is taken.

        :raises NotAcceptable: 406
        :raises UnsupportedMediaType: 415
        """
        if self.shows_json and not admits_json(request.environ.get("HTTP_ACCEPT", JSON)):
            raise NotAcceptable()
        if self.takes_json:
            given = request.environ.get("CONTENT_TYPE", "").split(";", 1)[0].strip()
            if given != JSON:
                raise UnsupportedMediaType(given=given or None)


Actions = tuple[Action, ...]


def shows(handler: Handler, rule: str, **more: Any) -> Actions:
    """Answer with a JSON body."""
    return (Action(handler, rule, shows_json=True, **more),)


def takes(handler: Handler, rule: str, **more: Any) -> Actions:
    """Read a JSON body."""
    return (Action(handler, rule, takes_json=True, **more),)


def acts(handler: Handler, rule: str | None, **more: Any) -> Actions:
    """Neither read a body nor promise one."""
    return (Action(handler, rule, **more),)
