"""Options of ``[placement]`` (specification 06 section 4.3)."""

from oslo_config import cfg

GROUP = "placement"
INCOMPLETE_ID = "00000000-0000-0000-0000-000000000000"

OPTIONS = (
    cfg.BoolOpt(
        "randomize_allocation_candidates",
        default=False,
        help="When a limit cuts the allocation candidates of a request, answer a random sample "
        "instead of always the same first ones. Turn it on to spread load over equal hosts.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_project_id",
        default=INCOMPLETE_ID,
        help="Project of consumers whose allocations were written without one (before microversion "
        "1.8). Change it, before the first start, to tell them apart in reports.",
    ),
    cfg.StrOpt(
        "incomplete_consumer_user_id",
        default=INCOMPLETE_ID,
        help="User of consumers whose allocations were written without one (before microversion "
        "1.8). Change it together with incomplete_consumer_project_id.",
    ),
    cfg.IntOpt(
        "allocation_conflict_retry_count",
        default=10,
        help="How often a write that lost a race in the database is tried before it is answered "
        "with 409. Raise it when clients see conflicts under very heavy load.",
    ),
    cfg.IntOpt(
        "max_allocation_candidates",
        default=-1,
        help="The most candidates generated for one request, before its limit is applied; a negative "
        "number for no bound. Set it when requests with many combinations take too long.",
    ),
    cfg.StrOpt(
        "allocation_candidates_generation_strategy",
        default="depth-first",
        choices=[
            ("depth-first", "all candidates of one tree before those of the next"),
            ("breadth-first", "one candidate of each tree in turn"),
        ],
        help="In which order candidates are generated. Use breadth-first together with "
        "max_allocation_candidates, so that one wide tree does not use up the bound.",
    ),
    cfg.IntOpt(
        "max_answered_candidates",
        default=200_000,
        min=1,
        help="The most candidates in one answer, whatever its limit; a search that found more is cut "
        "with a warning in the log. Unlike max_allocation_candidates it is no setting of the search "
        "but guards the memory of the worker: some 1 KiB a candidate. Lower it on small machines.",
    ),
    cfg.IntOpt(
        "max_candidates_answer_size",
        default=12 * 1024 * 1024,
        min=1024 * 1024,
        help="The most bytes of one answer with allocation candidates, whatever its limit; a search "
        "that found more is cut with a warning in the log. Each thread may hold one such answer. "
        "Raise it where requests without a limit must list more than some 10,000 hosts.",
    ),
    cfg.IntOpt(
        "max_request_body_size",
        default=8 * 1024 * 1024,
        min=1024,
        help="The most bytes of a request body; a longer one is answered with 413. Raise it when "
        "reshapes of very large trees are refused.",
    ),
    cfg.IntOpt(
        "max_query_string_length",
        default=65536,
        min=1024,
        help="The most characters of a query string; a longer one is answered with 414. Raise it "
        "when member_of lists of very many aggregates are refused.",
    ),
    cfg.IntOpt(
        "max_request_groups",
        default=256,
        min=1,
        help="The most request groups of one allocation candidates request; one with more is "
        "answered with 400. Raise it when servers with very many devices are refused.",
    ),
)
