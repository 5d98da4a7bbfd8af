"""A file of options, YAML or TOML, checked against the table before anything starts."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from toolgrammar_serving.launch.options import rows
from toolgrammar_serving.launch.problems import LaunchError


def read_config(path: str) -> dict[str, Any]:
    """The file's options by name; keys may be written with ``-`` or ``_``.

    Raises ``LaunchError`` for a file that cannot be read, and for keys that are no option.
    """
    found = _parse(Path(path))
    if not isinstance(found, dict):
        raise LaunchError(f"{path}: a config file is a mapping of option to value")
    known = {row.name for row in rows()}
    result: dict[str, Any] = {}
    for key, value in found.items():
        name = str(key).replace("-", "_")
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            raise LaunchError(f"{path}: no option is called {key!r}", f"did you mean {close[0]}?" if close else "")
        result[name] = value
    return result


def _parse(path: Path) -> Any:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LaunchError(f"the config file {path} cannot be read: {error}") from None
    if path.suffix == ".toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise LaunchError(f"{path}: {error}") from None
    if path.suffix not in (".yaml", ".yml", ".json"):
        raise LaunchError(f"{path}: a config file ends in .yaml, .yml, .json or .toml")
    import msgspec

    try:  # JSON is YAML too
        return msgspec.yaml.decode(text) if path.suffix != ".json" else msgspec.json.decode(text)
    except ImportError:
        raise LaunchError("YAML needs PyYAML", "pip install pyyaml, or write the file as .toml or .json") from None
    except msgspec.DecodeError as error:
        raise LaunchError(f"{path}: {error}") from None
