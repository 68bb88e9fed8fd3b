"""The small changes by which a module becomes a mutant.

Written here, because neither tool fits. cosmic-ray drops no statement and no argument, which is how this
program has been wrong, while a fifth of its mutants are annotations (``int | None``); mutmut leaves out
functions with decorators and tables, of which the statements and filters are made.
"""

import ast
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Annotations and decorators change no result; cached functions are right without their cache.
_PASSED_OVER = ("annotation", "returns", "decorator_list")


class Change(NamedTuple):
    """One change that can be made to a tree: the line where, what it is, and how to make it."""

    line: int
    what: str
    make: Callable[[], None]


def mutant(source: str, number: int) -> str:
    """Return the source with one of its changes made."""
    tree = ast.parse(source)
    list(changes(tree))[number].make()
    return ast.unparse(ast.fix_missing_locations(tree))


def changes(tree: ast.AST) -> Iterator[Change]:
    """Yield every change of a module, always in the same order."""
    for node in _nodes(tree):
        for what, make in (*_of_expression(node), *_of_statement(node)):
            yield Change(getattr(make.args[0], "lineno", 0), what, make)


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for name, value in ast.iter_fields(node):
        if name not in _PASSED_OVER:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not _is_assertion(child):
                    yield from _nodes(child)


def _is_assertion(node: ast.AST) -> bool:
    """``strict=`` of zip says what is so anyhow."""
    return isinstance(node, ast.keyword) and node.arg == "strict"


Kind = Iterator[tuple[str, "partial[None]"]]
"""What a change is, and how to make it; the first argument is the node that changes."""


def _of_expression(node: ast.AST) -> Kind:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in _COMPARED:
            new = _COMPARED[type(operator)]()
            yield f"compare by {_name(new)}", partial(_put, node, "ops", [new])
        case ast.BinOp(op=operator) if type(operator) in _COMPUTED:
            computed = _COMPUTED[type(operator)]()
            yield f"compute by {_name(computed)}", partial(_put, node, "op", computed)
        case ast.BoolOp(op=ast.And()):
            yield "or for and", partial(_put, node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            yield "and for or", partial(_put, node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not()):
            yield "no not", partial(_put, node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool() as told):
            yield f"{not told} for {told}", partial(_put, node, "value", not told)
        case ast.Constant(value=int() as number):
            yield f"{number + 1} for {number}", partial(_put, node, "value", number + 1)
        case ast.IfExp():
            yield "the other way", partial(_swap, node)
        case ast.comprehension(ifs=[_, *_]):
            yield "no condition", partial(_put, node, "ifs", [])
        case ast.Call(keywords=keywords):
            for each in keywords:
                if each.arg is not None and not _is_assertion(each):
                    yield f"without {each.arg}=", partial(_drop, node, each)


def _of_statement(node: ast.AST) -> Kind:
    match node:
        case ast.If() | ast.While():
            yield "the other way", partial(_negate, node)
        case ast.For():
            yield "no turn", partial(_put, node, "iter", ast.Tuple([], ast.Load()))
        case ast.Return(value=value) if value is not None and not _is_none(value):
            yield "return nothing", partial(_put, node, "value", None)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        for place, statement in enumerate(block if isinstance(block, list) else ()):
            if _may_go(statement):
                yield f"without {_start_of(statement)}", partial(_pass, statement, block, place)


def _may_go(statement: ast.AST) -> bool:
    match statement:
        case (
            ast.Expr(value=ast.Call())
            | ast.AugAssign()
            | ast.Raise()
            | ast.Continue()
            | ast.Break()
        ):
            return True
    return False


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _name(operator: ast.AST) -> str:
    return type(operator).__name__


def _start_of(statement: ast.AST) -> str:
    return ast.unparse(statement).partition("\n")[0][:60]


def _put(node: ast.AST, field: str, value: Any) -> None:
    setattr(node, field, value)


def _swap(node: ast.IfExp) -> None:
    node.body, node.orelse = node.orelse, node.body


def _negate(node: ast.If | ast.While) -> None:
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _drop(node: ast.Call, keyword: ast.keyword) -> None:
    node.keywords.remove(keyword)


def _pass(statement: ast.stmt, block: list[ast.stmt], place: int) -> None:
    block[place] = ast.copy_location(ast.Pass(), statement)
