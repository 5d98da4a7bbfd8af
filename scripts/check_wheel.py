"""The checks of check_wheel.sh by name: a wheel's contents, what the installed command and library say."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

ZURICH = [
    (
        "find_trains",
        {
            "origin": "Basel SBB",
            "destination": "Zürich HB",
            "date": "2027-03-12",
            "passengers": 2,
            "direct_only": True,
        },
    ),
    ("get_forecast", {"place": "Zürich", "days": 3, "units": "metric"}),
]


def contents(wheel: str, grammars: str) -> str:
    """Both packages and nothing else on top; every grammar, the elaborated file, type marker, licence."""
    names = set(zipfile.ZipFile(wheel).namelist())
    top = {name.split("/")[0] for name in names}
    expected_top = {"toolgrammar", "toolgrammar_serving"}
    info = top - expected_top
    assert expected_top <= top and len(info) == 1 and info.pop().endswith(".dist-info"), sorted(top)
    folder = Path(grammars)
    files = {f"toolgrammar/grammars/{file.relative_to(folder).as_posix()}" for file in folder.rglob("*.tg")}
    needed = files | {"toolgrammar/grammars/elaborated.msgpack", "toolgrammar/py.typed"}
    assert files and needed <= names, sorted(needed - names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    return f"{Path(wheel).name}: {len(names)} files, {len(files)} grammars"


def parsed(path: str) -> str:
    """The installed command, piped, writes one JSON line a capture."""
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1, lines
    message = json.loads(lines[0])
    calls = [(call["name"], call["arguments"]) for call in message["calls"]]
    assert calls == ZURICH, calls
    assert message["content"].startswith("Two things are needed for the trip to Zürich"), message["content"]
    return "the installed command parses a capture outside the checkout"


def library(path: str) -> str:
    """The installed library does the same, without lark and from its own folder."""
    import toolgrammar

    message = toolgrammar.parse(Path(path).read_text(encoding="utf-8"), model="deepseek-v3")
    assert [(call.name, call.arguments) for call in message.calls] == ZURICH, message
    assert "lark" not in sys.modules, "the elaborated grammars of the wheel were not used"
    assert "site-packages" in toolgrammar.__file__, toolgrammar.__file__
    return "the installed library parses it too, without lark"


def served(path: str) -> str:
    """The installed server starts with what its extra brings, and answers with the capture's calls."""
    command = ["toolgrammar-serve", "--replay", path, "--speed", "max", "--port", "0"]
    with subprocess.Popen([*command, "--format", "deepseek-v3"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = []
        try:
            for line in server.stderr:
                said.append(line)
                if line.startswith("ready "):
                    break
            else:
                raise AssertionError("".join(said))
            body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
            request = urllib.request.Request(line.split()[1] + "/chat/completions", body)
            request.add_header("content-type", "application/json")
            with urllib.request.urlopen(request, timeout=60) as response:
                message = json.load(response)["choices"][0]["message"]
        finally:
            server.terminate()
    calls = [call["function"] for call in message["tool_calls"]]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == ZURICH, message
    return "the installed server answers with it"


CHECKS = {check.__name__: check for check in (contents, parsed, library, served)}

if __name__ == "__main__":
    print("ok:", CHECKS[sys.argv[1]](*sys.argv[2:]))
