"""The payloads of an instruction's words as layouts, from ``fabric.encoding``: hardware reads what the encoder writes, bit for bit."""

from collections.abc import Sequence

from amaranth.lib import data

from watersmeet.fabric import encoding


def _layout(fields: Sequence[tuple[str, int]]) -> data.StructLayout:
    """The encoder names fields from the highest bit down, a layout from the lowest up."""
    return data.StructLayout(dict(reversed(fields)))


HEAD, CHUNK = (
    _layout(encoding.HEAD),
    _layout(encoding.BODY),
)  # an instruction's first payload, and those that follow
