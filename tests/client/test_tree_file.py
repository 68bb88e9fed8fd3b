"""Tree files: what is refused and in which line, and the round trip."""

import json

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement.client.provider_tree import ProviderTree
from placement.client.tree_file import TreeFileError, parse, render, schema

HEAD = "placement_tree: 1\nproviders:\n"
U1, U2 = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def problems(text: str) -> list[tuple[int, str]]:
    """Line and text of what is wrong with a file."""
    with pytest.raises(TreeFileError) as caught:
        parse(text, "trees.yaml")
    for problem in caught.value.problems:
        assert f"trees.yaml:{problem.line}: " in str(caught.value)
    return [(problem.line, problem.text) for problem in caught.value.problems]


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    json.dumps(schema())


def test_a_file_is_read_with_its_lines() -> None:
    file = parse(
        f"""placement_tree: 1
unlisted: remove
providers:
  - name: host
    uuid: {U1}
    inventories:
      VCPU: {{total: 8, allocation_ratio: 1.5}}
    children:
      - name: gpu
        traits:
          - CUSTOM_A
          - CUSTOM_B
        takes_over:
          - from: host
            class: VGPU
        inventories:
          VGPU:
            total: 4
  - name: late
    parent: gpu
""",
        "trees.yaml",
    )
    host, gpu, late = file.providers
    assert file.removes_unlisted
    assert (host.name, host.uuid, host.parent) == ("host", U1, None)
    assert host.inventory == {"VCPU": {"total": 8, "allocation_ratio": 1.5}}
    assert host.traits is None and host.aggregates is None
    assert gpu.parent is host and late.parent is gpu and late.root is host
    assert gpu.lines["traits", "CUSTOM_B"] == 12
    assert gpu.lines["inventories", "VGPU"] == 17
    assert gpu.takeovers[0].line == 14
    assert late.line == 19


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("providers: []\n", 1, "'placement_tree' is a required property"),
        ("placement_tree: 2\nproviders: []\n", 1, "1 was expected"),
        ("", 1, "is not of type 'object'"),
        ("- a\n", 1, "is not of type 'object'"),
        (HEAD + "  - {}\n", 3, "'name' is a required property"),
        (HEAD + "  - name: a\n    colour: red\n", 3, "'colour'"),
        (HEAD + "  - name: a\n    uuid: nonsense\n", 4, "does not match"),
        (HEAD + "  - name: a\n    inventories:\n      VCPU: {}\n", 5, "'total' is a required"),
        (HEAD + "  - name: a\n    inventories:\n      VCPU: {total: 0}\n", 5, "minimum of 1"),
        (HEAD + "  - name: a\n    inventories:\n      vcpu: {total: 1}\n", 4, "does not match"),
        (HEAD + "  - name: a\n    inventories:\n      VCPU: {total: true}\n", 5, "integer"),
        (HEAD + "  - name: a\n    traits: [x y]\n", 4, "does not match"),
        (HEAD + "  - name: a\n    name: b\n", 4, "found duplicate key"),
        (HEAD + "  - name: a\n  - name: b\n  - name: a\n", 5, "name 'a' is in line 3 already"),
        (
            HEAD + f"  - name: a\n    uuid: {U1}\n  - name: b\n    uuid: {U1}\n",
            5,
            "is in line 3 already",
        ),
        (HEAD + "  - name: a\n    parent: b\n", 4, "parent 'b' is not in this file"),
        (HEAD + "  - name: a\n    parent: a\n", 3, "its own ancestor"),
        (
            HEAD + "  - name: a\n    children:\n    - name: b\n      parent: a\n",
            5,
            "'parent' was unexpected",
        ),
        (
            HEAD + "  - name: a\n    takes_over: [{from: b, class: VGPU}]\n",
            4,
            "has none in its inventories",
        ),
        (
            HEAD
            + "  - name: a\n    inventories: {VGPU: {total: 1}}\n"
            + "    takes_over:\n      - {from: a, class: VGPU}\n",
            6,
            "from itself",
        ),
        (HEAD + "  - &a\n    name: a\n    children: [*a]\n", 3, "its own ancestor"),
        ("a: [\n", 2, "while parsing|expected|did not find"),
        ("a: \x00\n", 0, "special characters"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, line: int, words: str) -> None:
    found = problems(text)
    assert any(
        at == line and any(word in said for word in words.split("|")) for at, said in found
    ), found


def test_a_cycle_through_parents_names_its_members_only() -> None:
    found = problems(
        HEAD
        + "  - name: a\n    parent: b\n  - name: b\n    parent: c\n  - name: c\n    parent: b\n"
    )
    assert [line for line, text in found if "cycle" in text] == [5, 7]


def test_all_problems_are_reported_at_once() -> None:
    assert len(problems(HEAD + "  - name: a\n    uuid: x\n  - colour: red\n")) >= 3


def test_aliases_that_blow_up_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "more than" in problems("\n".join(lines) + "\n")[0][1]


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    assert problems("[" * 500 + "]" * 500)


def built() -> ProviderTree:
    """A tree whose names and records are odd."""
    tree = ProviderTree()
    tree.new_root("host: #1 'odd' \u00e4\n", U1)
    tree.new_child("no", U1, U2)
    tree.update_inventory(U1, {"VCPU": {"total": 8, "reserved": 9, "allocation_ratio": 0.5}})
    tree.update_traits(U2, ["HW_CPU_X86_AVX", "CUSTOM_1"])
    tree.update_aggregates(U2, ["AAAABBBBCCCCDDDDEEEEFFFF00001111"])
    return tree


def test_an_export_reads_back_as_the_same() -> None:
    file = parse(render(built(), [U1]), "export")
    host, child = file.providers
    assert file.removes_unlisted
    assert host.name == built().data(U1).name
    assert host.inventory == built().data(U1).inventory
    assert (child.name, child.uuid, child.parent) == ("no", U2, host)
    assert child.traits == {"HW_CPU_X86_AVX", "CUSTOM_1"}
    assert child.aggregates == {"AAAABBBBCCCCDDDDEEEEFFFF00001111"}
    assert child.inventory == {}


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]),
        min_size=1,
        max_size=20,
    )
)
def test_any_name_survives_the_round_trip(name: str) -> None:
    tree = ProviderTree()
    tree.new_root(name, U1)
    assert parse(render(tree, [U1]), "export").providers[0].name == name
