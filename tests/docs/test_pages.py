"""The pages of ``docs/formats`` are what the generator would write now, and what they point to is there."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from toolgrammar import registry
from toolgrammar.readings import example, page
from toolgrammar.readings.ebnf import ebnf
from toolgrammar.readings.figures import figures
from toolgrammar.readings.railroad import railroad

ROOT = Path(__file__).parents[2]
OUT = ROOT / "docs" / "formats"
CASES = page.cases_in(ROOT / "fixtures" / "cases")


def read(name: str) -> str:
    return (OUT / name).read_text(encoding="utf-8") if (OUT / name).is_file() else ""


@pytest.mark.parametrize("name", registry.formats())
def test_a_page_is_fresh(name: str) -> None:
    grammar = registry.load(name)
    fresh = read(f"{name}.md") == page.page(grammar, CASES.get(name, ()))
    assert fresh, f"docs/formats/{name}.md is stale: make pages"
    drawn = read(f"{name}.svg") == railroad(figures(grammar), f"The rules of {name}")
    assert drawn, f"docs/formats/{name}.svg is stale: make pages"


def test_the_index_is_fresh_and_nothing_is_left_over() -> None:
    formats = {name: registry.load(name) for name in registry.formats()}
    assert read("README.md") == page.index(formats, CASES), "docs/formats/README.md is stale: make pages"
    wanted = {"README.md", *(f"{name}.{suffix}" for name in formats for suffix in ("md", "svg"))}
    assert {path.name for path in OUT.iterdir()} == wanted


@pytest.mark.parametrize("path", sorted(OUT.glob("*.md")), ids=lambda path: path.stem)
def test_links_resolve(path: Path) -> None:
    text = re.sub(r"^(`{3,})\w*\n.*?^\1$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", "", text))
    assert len(links) > 1
    assert [link for link in links if not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", sorted(OUT.glob("*.svg")), ids=lambda path: path.stem)
def test_a_picture_shows_every_rule(path: Path) -> None:
    root = ElementTree.parse(path).getroot()
    names = ["".join(each.itertext()) for each in root.iter() if each.get("class") == "name"]
    found = figures(registry.load(path.stem))
    assert len(names) == len(found.rules)
    assert all(name.startswith(rule) for name, rule in zip(names, found.rules, strict=True))
    assert float(root.get("width", "inf")) <= 1000


@pytest.mark.parametrize("name", registry.formats())
def test_every_rule_is_written_and_every_format_has_an_example(name: str) -> None:
    grammar = registry.load(name)
    text = ebnf(grammar)
    assert [line.split(" ::= ")[0].strip() for line in text.splitlines() if " ::= " in line] == list(
        figures(grammar).rules
    )
    made = example.example(grammar)
    assert made is not None
    assert "".join(each.text for each in made.stretches) == made.text


def test_stale_pages_are_named(tmp_path: Path) -> None:
    (tmp_path / "old.md").write_text("gone")
    (tmp_path / "a.md").write_text("before")
    (tmp_path / "b.md").write_text("same")
    assert page.stale(tmp_path, {"a.md": "after", "b.md": "same", "c.svg": "new"}) == ["a.md", "c.svg", "old.md"]


def test_text_shows_as_it_is() -> None:
    from toolgrammar.readings.markdown import code, prose

    assert prose("a <b> `c|d` e|f_") == r"a \<b> `c|d` e\|f\_"
    assert prose("`c|d`", cell=True) == r"`c\|d`"
    assert code("a\n`b` ") == "``a↵`b`␣``"
    assert code("```") == "```` ``` ````"
