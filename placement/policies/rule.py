"""Rules of extensions, declared in the table ``RULES`` of ``rules.py``, by name without ``placement:``."""

ADMIN_OR_SERVICE = "rule:admin_or_service_api"


class Rule:
    """A rule of access.

    :param operations: the guarded operations, such as ``GET /-/trees``.
    :param place: the position in the sample among the rules of all extensions, lower numbers first. Operators
        compare their files with the sample, so a rule keeps its place.
    """

    def __init__(
        self, description: str, *operations: str, check: str = ADMIN_OR_SERVICE, place: int = 1000
    ) -> None:
        self.description = description
        self.operations = operations
        self.check = check
        self.place = place
