"""What somebody may have meant who misspelt a name."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'x'?` for the known name nearest to `word`, or nothing if none is near.

    The leading space lets it follow a sentence whether or not there is a hint.
    """
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
