"""What is wrong with a response template."""

from __future__ import annotations

from toolgrammar.errors import GrammarError


class TemplateError(GrammarError):
    """A response template that cannot be used. Names the template, and the field and key where the mistake is."""

    def __init__(self, message: str, *, name: str = "", field: str = "", key: str = "", hint: str = "") -> None:
        self.template = name
        self.field = field
        self.key = key
        self.reason = message
        places = [f"response template {name!r}" if name else "response template"]
        places += [f"field {field!r}"] if field else []
        places += [f"key {key!r}"] if key else []
        super().__init__(f"{', '.join(places)}: {message}", hint=hint)
