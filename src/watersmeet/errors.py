"""Every error that Watersmeet raises on purpose: one root class, a few kinds.

A message says what was expected, what was given, and what to do. State is never left half changed: an
error in ``push`` refuses the whole push.
"""

from collections.abc import Sequence


class WatersmeetError(Exception):
    """Root of all errors raised by Watersmeet."""


class OptionError(WatersmeetError, ValueError):
    """An option, a window or a duration is not one that can be used."""


class ConditionError(WatersmeetError, ValueError):
    """The SQL text (condition or select list) cannot be understood or does not fit the schemas.

    ``span``: the place in the text, as a half-open range of characters; None: it has none.
    """

    span: tuple[int, int] | None = None

    def moved(self, by: int) -> "ConditionError":
        """The same error, of a text in which the one in question begins at ``by``."""
        if self.span is not None:
            self.span = self.span[0] + by, self.span[1] + by
        return self


class SchemaError(WatersmeetError, TypeError):
    """A batch does not have the columns or types that its stream has, or cannot be read as Arrow."""


class DataError(WatersmeetError, ValueError):
    """A value in a batch cannot be used: a null time, for instance. The message names the row."""


class ResultError(WatersmeetError):
    """A result was asked for something that its mode does not keep."""


class FabricError(WatersmeetError):
    """A query does not fit the fabric: the message says what is missing, and where."""


class StateError(WatersmeetError):
    """A saved state is missing, damaged or of another kind; or a finished join was pushed to."""


class CoreFailed(WatersmeetError):  # noqa: N818
    """A join core of a flow has failed, and what was on its way was undone.

    ``core``: its number. ``resume``: by stream, the arrival number from which on rows are to be pushed again.
    """

    def __init__(self, message: str, core: int | None = None) -> None:
        super().__init__(message)
        self.core = core
        self.resume: dict[str, int] = {}


def listed(texts: Sequence[str]) -> str:
    """Texts in a sentence: one, two and three."""
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)
