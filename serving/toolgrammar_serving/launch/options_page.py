"""The options table as Markdown.

``python -m toolgrammar_serving.launch.options_page docs/serving.md`` renews it in the page.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from toolgrammar_serving.launch.options import groups

BEGIN: Final = "<!-- options: written by toolgrammar_serving.launch.options_page -->"
END: Final = "<!-- end of options -->"


def markdown() -> str:
    """The options table of ``docs/serving.md``."""
    lines = []
    for group, members in groups().items():
        lines += [f"**{group}**", "", "| option | default | |", "| --- | --- | --- |"]
        for row in members:
            about = row.about
            name = about.metavar if about.argument else f"{row.flag} {about.metavar}".strip()
            text, _, stated = about.help.partition("  [default: ")
            text = text.replace("|", "\\|") + (" May be repeated." if row.many else "")
            lines.append(f"| `{name}` | {stated.rstrip(']') or _shown(row.default)} | {text} |")
        lines.append("")
    return "\n".join(lines)


def renewed(page: str) -> str:
    """``page`` with the table as it should be."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n\n{markdown()}\n{END}{tail}"


def _shown(default: Any) -> str:
    if default is None or default in ((), {}, ""):
        return ""
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
