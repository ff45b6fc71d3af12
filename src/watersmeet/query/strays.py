"""Marks that stand where SQL has none. The parser passes over some of them, and what was written must not be passed over."""

from collections.abc import Sequence

from watersmeet.sql.words import Word

_BEGINS = ("SELECT", "WITH", "(")
_NEVER = frozenset("? @ : { } [ ] $ # {{ }} {% %}".split())  # noqa: SIM905
_JOINING = ("JOIN", "OUTER", "SEMI", "ANTI")
# What follows the last item of a list, or the last input of FROM.
_ENDS = frozenset(") , ; FROM WHERE JOIN UNION CROSS INNER FULL NATURAL ON HAVING LIMIT".split())  # noqa: SIM905
_ENDS |= {"GROUP BY", "ORDER BY"}  # one word each
_STAR_AFTER = ("SELECT", "ALL", ",", ".", "(")


def stray(words: Sequence[Word]) -> Word | None:
    """The first word of a query that is out of place; None: there is none."""
    texts = ["", *(word.text.upper() for word in words), "", ""]
    for at, word in enumerate(words, start=1):
        if _is_stray(texts, at):
            return word
    return None


def _is_stray(texts: Sequence[str], at: int) -> bool:
    before, text, after = texts[at - 1], texts[at], texts[at + 1]
    if text in _NEVER or (not before and text not in _BEGINS):
        return True
    ends = not after or after in _ENDS or (after in ("LEFT", "RIGHT") and texts[at + 2] in _JOINING)
    if text == ",":
        return before in ("SELECT", "(", "FROM", "GROUP BY", "ORDER BY") or ends
    if text == "*":
        return before not in _STAR_AFTER and ends
    if text == "ON":
        return ends
    if text == ".":
        return before in ("SELECT", "FROM", "JOIN", ",", "(")
    if text in ("+", "-"):
        return after in ("SELECT", "*") or ends
    if text == "AS":
        return before in ("SELECT", "(", ",") or after in ("SELECT", ",", ")", "")
    return False
