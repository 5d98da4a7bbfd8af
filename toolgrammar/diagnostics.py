"""The codes of diagnostics: stable, documented, one sentence each.

W1xx: the text looks like another format. W2xx: a recovery was applied. E1xx: malformed. E2xx: incomplete.
E3xx: a tool nobody offered.
"""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, str]] = {
    "W101": "the text looks like a call of another format",
    "W201": "trailing comma dropped",
    "W202": "single-quoted string re-quoted",
    "W203": "Python literal read as JSON",
    "W204": "raw control character in a string escaped",
    "W205": "unknown escape in a string kept as a backslash and the letter",
    "W206": "NaN or Infinity read as a string",
    "W207": "arguments given as a JSON string were decoded once",
    "W210": "a call section without a call",
    "W211": "text held as a possible call grew over the limit and was released",
    "W212": "a name or key grew over the limit; it was not a call",
    "W213": "a parameter without a value was dropped",
    "W214": "the call's end marker closed brackets the model left open",
    "W215": "a control token out of place was dropped",
    "W216": "text beside nested elements was kept under the key $text",
    "E101": "the call's arguments are not valid in this format",
    "E102": "the arguments are not a JSON object",
    "E103": "the call was broken off by other text",
    "E201": "the output ended inside this call",
    "E202": "the output ended inside a call section or header",
    "E301": "the call names a tool that was not offered",
}
