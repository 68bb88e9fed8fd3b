"""What code, tests and pages cite of the specification exists."""

import re
from pathlib import Path

from docs._tools import citations
from placement import conf

ROOT = Path(__file__).parents[2]
PLACES = ("placement", "tests", "benchmarks", "examples", "tools", "docs", "debian", "etc")
KINDS = {".py", ".yaml", ".rst", ".md", ".mako", ".conf", ".sample", ""}


def texts() -> list[tuple[str, str, str | None]]:
    """Return name, text and, for a chapter of the specification, its number."""
    found = [ROOT / "CONTRIBUTING.rst", ROOT / "README.rst", ROOT / "CHANGES.rst"]
    for place in PLACES:
        found += [
            path
            for path in (ROOT / place).rglob("*")
            if path.suffix in KINDS and path.is_file() and "__pycache__" not in path.parts
        ]
    return [
        (
            str(path.relative_to(ROOT)),
            re.sub(r"\n\s*(?:#|\*) ?", "\n", path.read_text()),
            citations.chapter_of(str(path.relative_to(ROOT / "docs").with_suffix("")))
            if path.is_relative_to(ROOT / "docs")
            else None,
        )
        for path in found
        if not path.is_relative_to(ROOT / "docs" / "_build")
    ]


def test_every_section_that_is_cited_exists() -> None:
    known = citations.targets()
    cited = {
        (name, found)
        for name, text, chapter in texts()
        for _start, _end, found in citations.citations(text, chapter)
    }
    assert len(cited) > 300
    assert sorted(each for each in cited if each[1] not in known) == []


def test_the_forms_of_a_citation() -> None:
    text = (
        "specification 02 section 3.4.1, Specification 05 part A, specification 04 sections 5.1 to\n"
        "5.7 and 6; specification 03. A section 9 elsewhere is none, 404 no number."
    )
    assert [found for _start, _end, found in citations.citations(text)] == [
        ("02", "3.4.1"),
        ("05", "A"),
        ("04", "5.1"),
        ("04", "5.7"),
        ("04", "6"),
        ("03", None),
    ]


def test_a_chapter_cites_itself_without_its_number() -> None:
    text = "sections C4 and C6, chapter 03 section 7.2, 401 (section 3, 500)"
    assert [found for _start, _end, found in citations.citations(text, "05")] == [
        ("05", "C4"),
        ("05", "C6"),
        ("03", "7.2"),
        ("05", "3"),
    ]


def test_the_specification_names_every_option() -> None:
    text = "".join(path.read_text() for _chapter, path in citations.pages())
    names = {option.name for _group, options in conf.list_opts() for option in options}
    assert sorted(name for name in names if not re.search(rf"[`/]{name}`", text)) == []
