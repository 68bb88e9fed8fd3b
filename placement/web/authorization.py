"""The enforcement of policy rules by oslo.policy, which reads them live (specification 01 section 14)."""

import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from stat import S_ISDIR
from typing import Any
from urllib.parse import quote

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import opts, policy

from placement import errors, policies
from placement.advice import NotConfigured
from placement.policies import PREFIX, files

LOG = logging.getLogger(__name__)

# Few role sets are in use; the bound only stops a client of noauth2 that invents new ones.
REMEMBERED_DECISIONS = 4096

ALWAYS, NEVER = "@", "!"
"""Checks without a condition, in the policy language."""

UNDECIDED = (RecursionError, SyntaxError, TypeError, ValueError)
"""The errors of oslo.policy for a rule that refers to itself, or for a check that it cannot compare."""

USUAL_PLACES = ("~/.placement", "~", "/etc/placement", "/etc")
"""The folders that oslo.config searches last."""

Stamp = tuple[Any, ...]


class NotAuthorized(errors.Forbidden):
    """The policy rule refuses the caller."""

    text = "Policy does not allow {rule} to be performed."
    rule: str


class WrongScope(errors.Forbidden):
    """The token is for the system or a domain, but everything here belongs to projects."""

    text = "{rule}"
    rule: str


class Authorizer:
    """The check of policy rules, from the defaults and the operator's files.

    The rules are built again whenever an option or file on which they depend has changed.

    :raises NotConfigured: a file cannot be read, or a rule of an operation cannot be parsed.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        opts.set_defaults(conf)
        self._conf = conf
        self._candidates: dict[tuple[str, ...], list[str]] = {}
        self._lock = threading.Lock()
        chosen = files.choose_file(conf)
        self._fallback = {chosen} - {conf.oslo_policy.policy_file}
        self._stamp = self._take_stamp()
        self._rules = _load(conf)

    def check(self, rule: str, context: RequestContext, target: Mapping[str, Any] | None) -> None:
        """Refuse a caller that the rule does not admit (403).

        :param rule: the name without ``placement:``.
        :param target: None means the caller's own project and user.
        """
        name = PREFIX + rule
        if context.system_scope or context.domain_id:
            LOG.info("The rule %s refuses a token that is not of a project", name)
            raise WrongScope(rule=name)
        if not self._get_current_rules().allow(name, context, target):
            # The roles are quoted: under noauth2 a client names its roles, and could otherwise begin a new
            # log line.
            roles = ", ".join(quote(role, safe=" :@/+", errors="replace") for role in context.roles)
            who = f"the roles {roles}" if context.roles else "a caller without roles"
            LOG.info("The rule %s refuses %s", name, who)
            raise NotAuthorized(rule=name)

    def _get_current_rules(self) -> "_RuleSet":
        stamp = self._take_stamp()
        if stamp != self._stamp:
            with self._lock:
                if stamp != self._stamp:
                    try:
                        self._rules = _load(self._conf)
                    except NotConfigured as error:
                        # While a file is being edited, the last good rules stay in force until it changes
                        # again.
                        LOG.error(
                            "The policy files cannot be used; the rules stay as they were. %s",
                            error,
                        )
                    self._stamp = stamp
        return self._rules

    def _take_stamp(self) -> Stamp:
        """Return a value that changes whenever the rules may have changed."""
        options = self._conf.oslo_policy
        names = options.policy_file, *self._fallback, *options.policy_dirs
        # These are all paths at which oslo.config looks for these names. Building them takes long.
        if names not in self._candidates:
            conf = self._conf
            folders = [str(Path(path).parent) for path in reversed(conf.config_file)]
            # The order is that of oslo.config. pathlib would raise for a user without a home.
            expanded = map(os.path.expanduser, (*conf.config_dirs, *folders, *USUAL_PLACES))
            places = dict.fromkeys(Path.cwd() / place for place in expanded)
            self._candidates[names] = [str(place / name) for name in names for place in places]
        stamps = [_stamp_file(path) for path in self._candidates[names]]
        return options.enforce_new_defaults, options.policy_default_rule, stamps


class _Enforcer(policy.Enforcer):
    """An enforcer that leaves reports about faulty rules to :mod:`placement.policies.files`."""

    def load_rules_quietly(self) -> None:
        """Load the rules without logging a traceback of the parser for each unknown check."""
        parser = logging.getLogger("oslo_policy._parser")
        parser.disabled = True
        try:
            self.load_rules()
        finally:
            parser.disabled = False

    def check_rules(self, raise_on_violation: bool = False) -> bool:
        """Accept all references without a log line."""
        return True


class _RuleSet:
    """The rules at one moment."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = _Enforcer(conf)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults(policies.list_rules())
        self._enforcer.load_rules_quietly()
        # From here on the enforcer does not read files: the caller checks whether they have changed.
        self._enforcer.use_conf = False
        rules = self._enforcer.rules
        self._by_roles_alone = {name for name in rules if _asks_only_roles(rules[name], rules)}
        self._decisions: dict[tuple[str, tuple[str, ...]], bool] = {}

    def allow(self, name: str, context: RequestContext, target: Mapping[str, Any] | None) -> bool:
        if name not in self._by_roles_alone:
            return self._decide(name, context, target)
        question = (name, tuple(context.roles))
        decision = self._decisions.get(question)
        if decision is None:
            decision = self._decide(name, context, target)
            if len(self._decisions) >= REMEMBERED_DECISIONS:
                self._decisions.clear()
            self._decisions[question] = decision
        return decision

    def _decide(self, name: str, context: RequestContext, target: Mapping[str, Any] | None) -> bool:
        if target is None:
            target = {"project_id": context.project_id, "user_id": context.user_id}
        try:
            return bool(self._enforcer.enforce(name, dict(target), context.to_policy_values()))
        except UNDECIDED:
            # The log has already named the rule and the file.
            return False


def _load(conf: cfg.ConfigOpts) -> _RuleSet:
    faults = files.find_faults(conf)
    if fatal := [fault.text for fault in faults if fault.forbids_start]:
        raise NotConfigured(*fatal)
    for fault in faults:
        LOG.warning("%s", fault.text)
    try:
        return _RuleSet(conf)
    except Exception as error:
        # oslo.policy raises the system's error without the name of the file.
        where = conf.find_file(conf.oslo_policy.policy_file) or conf.oslo_policy.policy_dirs
        raise NotConfigured(
            f"The policy files ({where}) cannot be used: {' '.join(str(error).split())}. Correct "
            "them; oslopolicy-validator --namespace placement tells more."
        ) from error


def _asks_only_roles(
    check: object, rules: policy.Rules, above: frozenset[str] = frozenset()
) -> bool:
    """Return whether the outcome of the check depends only on the caller's roles and the rules."""
    if isinstance(check, policy.RuleCheck):
        name = check.match
        # A rule that refers to itself never has another outcome than its parts, but takes 15 ms.
        return name in above or (
            name in rules and _asks_only_roles(rules[name], rules, above | {name})
        )
    if isinstance(check, policy.Check):
        return check.kind == "role" and "%" not in check.match
    if isinstance(check, policy.NotCheck):
        return _asks_only_roles(check.rule, rules, above)
    if isinstance(check, policy.AndCheck | policy.OrCheck):
        return all(_asks_only_roles(part, rules, above) for part in check.rules)
    return str(check) in (ALWAYS, NEVER)


def _stamp_file(path: str) -> Stamp | None:
    """Return a stamp that changes with a file, or a directory and its files; None if it does not exist."""
    if not os.access(path, os.F_OK):
        return None
    try:
        status = Path(path).stat()
        inside = sorted(Path(path).iterdir()) if S_ISDIR(status.st_mode) else ()
    except OSError:
        return None
    own = path, status.st_mtime_ns, status.st_size, status.st_ino
    return *own, *(_stamp_file(str(each)) for each in inside)
