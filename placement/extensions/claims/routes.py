"""The routes of claims: see :mod:`placement.routes`."""

from placement.extensions.claims import handlers
from placement.web.dispatch import Actions, acts, shows, takes

ROUTES: dict[str, dict[str, Actions]] = {
    "/-/claims": {"POST": takes(handlers.create_claims, "claims:create")},
    "/-/claims/confirm": {"POST": takes(handlers.confirm_claims, "claims:confirm")},
    "/-/claims/{consumer_uuid}/confirm": {"POST": acts(handlers.confirm_claim, "claims:confirm")},
    "/-/groups/{name:.+}": {"GET": shows(handlers.show_group, "groups:show")},
    "/-/holds": {"GET": shows(handlers.list_holds, "holds:list")},
}
"""Claims with chosen places (specification 09), served if ``[insight]/claims`` is set too."""
