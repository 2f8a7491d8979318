"""Texts of strangers, made fit to be shown.

A name, a reason or a message may come from anybody's record, archive or plugin. A terminal obeys what is hidden in it:
it moves the cursor, erases lines, or turns the direction of writing round. Such characters become visible escapes. So
do halves of surrogate pairs, which no output can encode. Line breaks and tabs stay.
"""

import re

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9_]*")
"""What solvers, problems and datasets are called; in records of strangers too."""

# Control characters of both sets, marks that reorder or hide text, separators that break lines, halves of pairs.
_HIDDEN = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff"
_HARMFUL = re.compile(f"[{_HIDDEN}]")
# The same in JSON, where each may also be written as an escape. That of a sound pair is taken for one too, and the
# control characters have further ones; what matters is that nothing is missed.
_IN_JSON = re.compile(rf"[{_HIDDEN}]|\\[bfr]|\\u(?:00[0189]|007f|061c|20[026]|feff|fff[9ab]|d[89a-f])", re.IGNORECASE)
_LINE_BREAKS = re.compile(r"\s*\n\s*")


def harmless(text: str) -> str:
    r"""Return the text with everything that a terminal would obey as a visible escape, such as `\x1b`."""
    return _HARMFUL.sub(_escaped, text)


def on_one_line(text: str) -> str:
    """Return the text harmless and without line breaks, where a second line could be taken for another message."""
    return _LINE_BREAKS.sub(" ", harmless(text))


def may_harm(json_text: str) -> bool:
    """Whether texts in this JSON need a look; quick, and right whenever it says no."""
    return _IN_JSON.search(json_text) is not None


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
