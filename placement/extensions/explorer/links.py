"""The pages of consumers and projects: ``[insight]/link_consumer`` and ``link_project`` (07 section 7)."""

import re
from typing import Final

from oslo_config import cfg

from placement.advice import NotConfigured

KINDS: Final = ("consumer", "project")
# A name must not choose the host, so the placeholder must follow the host. Passwords are refused, since the
# page would show them.
_BEGIN = r"https?://(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?[/?#]"
_REST = r"[!#-&(-;=?-\[\]_a-z~]"
"""The characters of a URL, without quotation marks, braces, and the like."""


def read(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Return the configured URL templates, by the kind of page.

    :raises NotConfigured: templates are faulty; with a sentence for each.
    """
    given = {kind: getattr(conf.insight, f"link_{kind}") for kind in KINDS}
    templates = {kind: template for kind, template in given.items() if template}
    faults = [
        f"[insight]/link_{kind} is not a URL such as https://cloud.example.org/{kind}s/{{{kind}}}: http or "
        f"https, a host, and behind it {{{kind}}}, but no other braces, blanks or quotation marks."
        for kind, template in templates.items()
        if not _is_template(kind, template)
    ]
    if faults:
        raise NotConfigured(*faults)
    return templates


def _is_template(kind: str, template: str) -> bool:
    placeholder = rf"\{{{kind}\}}"
    form = f"{_BEGIN}{_REST}*{placeholder}({_REST}|{placeholder})*"
    return re.fullmatch(form, template, re.IGNORECASE | re.ASCII) is not None
