"""Citations of the specification become links wherever a page shows them.

A citation reads "specification 02 section 3.4.1", "specification 05 part A" or "specification 04 sections
5.1 to 5.7 and 6"; within the specification also "chapter 02 section 3.4.1", and "section 3.4.1" for the
same chapter. Every numbered heading of a chapter is a target. ``tests/docs/test_citations.py``
finds citations of sections that do not exist.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

FOLDER = Path(__file__).parents[1] / "specification"
NUMBER = r"(?:\d+(?:\.\d+)*|[ABC]\d*|E\d+(?:\.\d+)?)(?!\w)"
NUMBERS = rf"{NUMBER}(?:(?:,\s+|,?\s+and\s+|\s+to\s+){NUMBER})*"
CHAPTER = r"(?:specification|chapter)\s+(?P<chapter>\d\d)\b"
SECTIONS = rf"(?:sections\s+(?P<many>{NUMBERS})|(?:section|part)\s+(?P<one>{NUMBER}))"
CITATION = re.compile(rf"\b{CHAPTER}(?:,?\s+{SECTIONS})?", re.IGNORECASE)
SECTION = re.compile(rf"\b{SECTIONS}", re.IGNORECASE)
HEADING = re.compile(rf"^(?P<marks>#+) (?:Part )?(?P<number>{NUMBER})[.:]?(?= )", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
UNLINKED = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, addnodes.pending_xref)

Cited = tuple[str, str | None]
"""A chapter and a section of it; None for the whole chapter."""


def pages() -> list[tuple[str, Path]]:
    """Return the pages of the chapters, each with the number of its chapter."""
    return [(path.name[:2], path) for path in sorted(FOLDER.glob("[0-9][0-9]-*.md"))]


def headings(text: str) -> Iterator[re.Match[str]]:
    """Yield the numbered headings of a chapter below its title; ``number`` is a group of each."""
    fences = [found.span() for found in FENCE.finditer(text)]
    for found in HEADING.finditer(text):
        fenced = any(start < found.start() < end for start, end in fences)
        if found["marks"] != "#" and not fenced:
            yield found


def targets() -> set[Cited]:
    """Return all chapters and sections that may be cited."""
    found: set[Cited] = set()
    for chapter, path in pages():
        found.add((chapter, None))
        found.update((chapter, heading["number"]) for heading in headings(path.read_text()))
    return found


def label(cited: Cited) -> str:
    """Return the name of the target of a chapter or section."""
    chapter, section = cited
    return "-".join(["specification", chapter, *(section or "").lower().split(".")]).rstrip("-")


def citations(text: str, chapter: str | None = None) -> Iterator[tuple[int, int, Cited]]:
    """Yield start, end and target of each part of each citation in the text.

    :param chapter: the chapter of the text; in other texts a bare "section 3" is not a citation.
    """
    done = 0
    for found in CITATION.finditer(text):
        if chapter:
            yield from _sections(SECTION.finditer(text, done, found.start()), chapter)
        done = found.end()
        if found["many"]:
            yield from _sections([found], found["chapter"])
        else:
            yield *found.span(), (found["chapter"], found["one"])
    if chapter:
        yield from _sections(SECTION.finditer(text, done), chapter)


def _sections(
    matches: Iterator[re.Match[str]] | list[re.Match[str]], chapter: str
) -> Iterator[tuple[int, int, Cited]]:
    for found in matches:
        if found["one"]:
            yield *found.span(), (chapter, found["one"])
            continue
        for each in re.finditer(NUMBER, found["many"]):
            offset = found.start("many")
            yield offset + each.start(), offset + each.end(), (chapter, each[0])


def with_targets(_app: Sphinx, document: str, source: list[str]) -> None:
    """Put a target before the title of a chapter and each numbered heading of its pages."""
    chapter = chapter_of(document)
    if chapter:
        text = source[0]
        for found in reversed(list(headings(text))):
            name = label((chapter, found["number"]))
            text = f"{text[: found.start()]}({name})=\n{text[found.start() :]}"
        # A further page of the chapter has another title: a citation of the chapter leads to its first.
        if text.startswith(f"# {chapter} "):
            text = f"({label((chapter, None))})=\n{text}"
        source[0] = text


def chapter_of(document: str) -> str | None:
    """Return the number of the chapter that a document is a page of; None for other pages."""
    found = re.fullmatch(r"specification/(\d\d)-.*", document)
    return found and found[1]


class Links(SphinxTransform):
    """Replace the citations in a page by references."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replace the citations in all text that is not code, a title or a link."""
        chapter = chapter_of(self.env.docname)
        for element in list(self.document.findall(nodes.TextElement)):
            if not any(isinstance(each, UNLINKED) for each in (element, *above(element))):
                element.children = [
                    new for old in joined(element.children) for new in linked(old, chapter)
                ]
                for child in element.children:
                    child.parent = element


def above(node: nodes.Node) -> Iterator[nodes.Node]:
    """Yield the parents of a node, from the inside out."""
    while node.parent is not None:
        node = node.parent
        yield node


def joined(children: list[nodes.Node]) -> Iterator[nodes.Node]:
    """Yield the nodes with neighbouring texts joined: Markdown has a text for each line."""
    text = ""
    for child in children:
        if isinstance(child, nodes.Text):
            text += str(child)
            continue
        if text:
            yield nodes.Text(text)
            text = ""
        yield child
    if text:
        yield nodes.Text(text)


def linked(node: nodes.Node, chapter: str | None) -> Iterator[nodes.Node]:
    """Yield the node; a text is cut into plain pieces and references."""
    if not isinstance(node, nodes.Text):
        yield node
        return
    text, done = str(node), 0
    for start, end, cited in citations(text, chapter):
        if start > done:
            yield nodes.Text(text[done:start])
        yield addnodes.pending_xref(
            "",
            nodes.inline("", text[start:end], classes=["std", "std-ref"]),
            refdomain="std",
            reftype="ref",
            reftarget=label(cited),
            refexplicit=True,
            refwarn=True,
        )
        done = end
    if done < len(text):
        yield nodes.Text(text[done:])


def setup(app: Sphinx) -> dict[str, Any]:
    """Make targets when a chapter is read, and links when any page is."""
    app.connect("source-read", with_targets)
    app.add_transform(Links)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
