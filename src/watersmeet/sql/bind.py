"""Untyped tree and schemas to typed tree: names are resolved, types are checked, constants are folded.

After binding every column exists, every operation has a type by Spark's rules (see `types`), and no error
is left to find at run time: evaluation gives NULL where SQL does, never an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pyarrow.types as pt

from watersmeet.errors import ConditionError
from watersmeet.sql import literal, types
from watersmeet.sql.casts import convert
from watersmeet.sql.evaluate import evaluate
from watersmeet.sql.names import Names
from watersmeet.sql.syntax import Source, Syntax
from watersmeet.sql.tree import Call, Expr, Literal

_COMPARISONS = ("=", "<=>", "<>", "<", "<=", ">", ">=")
_DAY = timedelta(days=1)


class Binder:
    """Binds trees of one text against the schemas of the streams."""

    def __init__(self, source: Source, schemas: Mapping[str, pa.Schema]) -> None:
        self.source = source
        self.names = Names(source, schemas)
        self.rules: dict[str, Callable[[Syntax], Expr]] = {
            "column": self.names.column,
            "literal": lambda node: Literal(node.value[1], node.value[0]),
            "interval": self._interval,
            "cast": self._cast,
            "negative": self._negative,
            "abs": self._abs,
            "is_null": lambda node: Call(types.BOOL, "is_null", (self.bind(node.args[0]),)),
            "in": self._in,
            "case": self._case,
            "nullif": self._nullif,
            "substring": self._substring,
            "concat": self._concat,
            "length": lambda node: self._text_call(node, pa.int32()),
            "upper": lambda node: self._text_call(node, types.TEXT),
            "lower": lambda node: self._text_call(node, types.TEXT),
            "like": self._like,
            "ilike": self._like,
            "date_add": lambda node: self._date_add(node, "+"),
            "date_sub": lambda node: self._date_add(node, "-"),
            "datediff": self._datediff,
            "to_date": lambda node: self._date(node.args[0]),
            "add_months": self._add_months,
        }
        self.rules |= dict.fromkeys(("and", "or", "not"), self._boolean)
        self.rules |= dict.fromkeys(_COMPARISONS, self._comparison)
        self.rules |= dict.fromkeys(("+", "-", "*", "/", "%", "div"), self._arithmetic)
        self.rules |= dict.fromkeys(("coalesce", "least", "greatest"), self._choice)
        self.rules |= dict.fromkeys(("sqrt", "power"), lambda node: self._number_call(node, types.DOUBLE))
        self.rules |= dict.fromkeys(("floor", "ceil"), self._rounded)
        self.rules |= dict.fromkeys(("year", "month", "day"), self._date_part)

    def bind(self, node: Syntax) -> Expr:
        """The typed tree of a node; a call of constants only is a constant."""
        return _folded(self.rules[node.op](node))

    def boolean(self, node: Syntax) -> Expr:
        """The typed tree of a node that must be true or false."""
        bound = self.bind(node)
        if not (pt.is_boolean(bound.type) or pt.is_null(bound.type)):
            raise self._error(
                node,
                f"must be true or false; got {_described(bound)}; compare it, or CAST it AS BOOLEAN",
            )
        return bound if pt.is_boolean(bound.type) else Literal(types.BOOL, None)

    def _error(self, node: Syntax, message: str) -> ConditionError:
        return self.source.error(node.span, f"{self.source.part(node.span)!r} {message}")

    # values

    def _interval(self, node: Syntax) -> Expr:
        months, micros = node.value
        if months:
            raise self.source.error(
                node.span,
                "an INTERVAL of months or years must be added to or taken from a date or timestamp, because "
                "months have no fixed length; got one that stands alone; use days, or ADD_MONTHS",
            )
        return _duration(micros)

    def _cast(self, node: Syntax) -> Expr:
        arg = self.bind(node.args[0])
        if arg.type == node.value:
            return arg
        if not types.castable(arg.type, node.value):
            raise self.source.error(
                node.span,
                f"a cast must be between types that have values in common; got {_described(arg)} as "
                f"{types.name(node.value)}; use arithmetic or date functions",
            )
        return Call(node.value, "cast", (arg,))

    def _scalar(self, node: Syntax, bound: Expr) -> None:
        if not types.is_scalar(bound.type):
            raise self._error(
                node,
                f"must be a number, text, binary, boolean, date, time or duration; got {_described(bound)}; "
                "take a field of it into a column of its own",
            )

    # arithmetic

    def _arithmetic(self, node: Syntax) -> Expr:
        months = self._months(node)
        if months is not None:
            return months
        left, right = self._operands(node)
        return self._calculated(node, _zoned(left, right.type), _zoned(right, left.type), node.op)

    def _operands(self, node: Syntax) -> list[Expr]:
        """Both sides of an operator. Beside a decimal a whole number in the text has as many digits as it shows."""
        sides = [self.bind(arg) for arg in node.args]
        if not any(pt.is_decimal(side.type) for side in sides):
            return sides
        return [
            _shortest(side) if arg.op == "literal" else side
            for arg, side in zip(node.args, sides, strict=True)
        ]

    def _calculated(self, node: Syntax, left: Expr, right: Expr, op: str) -> Expr:
        left, right = _days(left, right), _days(right, left)
        type_ = types.arithmetic(op, left.type, right.type)
        if type_ is None:
            raise self._error(
                node,
                f"must calculate with numbers, or with moments and intervals; got {_described(left)} "
                f"{op} {_described(right)}; CAST one side",
            )
        if pt.is_null(left.type) or pt.is_null(right.type):
            return Literal(type_, None)
        return Call(type_, op, (left, right))

    def _months(self, node: Syntax) -> Expr | None:
        """A moment plus or minus an INTERVAL that has months."""
        sides = [arg.op == "interval" and bool(arg.value[0]) for arg in node.args]
        if node.op not in ("+", "-") or sum(sides) != 1 or (node.op == "-" and sides[0]):
            return None
        amount, moment = (node.args[0], node.args[1]) if sides[0] else (node.args[1], node.args[0])
        sign = -1 if node.op == "-" else 1
        months, micros = amount.value
        bound = _or_null(self.bind(moment), pa.timestamp("us"))
        moved = self._moved_by_months(moment, bound, Literal(types.INT, sign * months))
        if not micros:
            return moved
        return self._calculated(node, moved, _duration(sign * micros), "+")

    def _moved_by_months(self, node: Syntax, moment: Expr, months: Expr) -> Expr:
        if not (pt.is_date(moment.type) or pt.is_timestamp(moment.type)):
            raise self._error(node, f"must be a date or timestamp; got {_described(moment)}; CAST it AS DATE")
        return Call(moment.type, "add_months", (moment, months))

    def _add_months(self, node: Syntax) -> Expr:
        moment = _or_null(self.bind(node.args[0]), pa.date32())
        months = _or_null(self.bind(node.args[1]), types.INT)
        if not pt.is_integer(months.type):
            raise self._error(
                node.args[1], f"must be a whole number of months; got {_described(months)}; CAST it AS INT"
            )
        moment = _temporal(moment, pa.date32())
        if pt.is_timestamp(moment.type):
            moment = Call(pa.date32(), "cast", (moment,))
        return self._moved_by_months(node.args[0], moment, months)

    def _negative(self, node: Syntax) -> Expr:
        arg = self._amount(node.args[0])
        type_ = types.INT if pt.is_integer(arg.type) and not pt.is_uint64(arg.type) else arg.type
        return Call(pa.decimal128(20, 0) if pt.is_uint64(arg.type) else type_, "negative", (arg,))

    def _abs(self, node: Syntax) -> Expr:
        arg = self._amount(node.args[0])
        signed = pt.is_integer(arg.type) and not pt.is_uint64(arg.type)
        return Call(types.INT if signed else arg.type, "abs", (arg,))

    def _amount(self, node: Syntax) -> Expr:
        arg = _or_null(self.bind(node), types.INT)
        if not (types.is_numeric(arg.type) or pt.is_duration(arg.type)):
            raise self._error(node, f"must be a number or an interval; got {_described(arg)}; CAST it")
        return arg

    def _number_call(self, node: Syntax, type_: pa.DataType) -> Expr:
        args = tuple(_or_null(self.bind(arg), types.DOUBLE) for arg in node.args)
        for syntax, arg in zip(node.args, args, strict=True):
            if not types.is_numeric(arg.type):
                raise self._error(syntax, f"must be a number; got {_described(arg)}; CAST it AS DOUBLE")
        return Call(type_, node.op, args)

    def _rounded(self, node: Syntax) -> Expr:
        call = self._number_call(node, types.INT)
        assert isinstance(call, Call)
        number = call.args[0].type
        if not pt.is_decimal(number) or number.scale <= 0:
            whole = pt.is_decimal(number) or pt.is_uint64(number)
            return Call(number if whole else types.INT, node.op, call.args)
        return Call(literal.decimal_type(number.precision - number.scale + 1, 0), node.op, call.args)

    # comparison and logic

    def _comparison(self, node: Syntax) -> Expr:
        return _compared(node.op, *self._aligned(node, self._operands(node)))

    def _aligned(self, node: Syntax, values: list[Expr]) -> list[Expr]:
        """Checks that the values have a common type; literals are turned into what the others are."""
        for syntax, value in zip(node.args, values, strict=True):
            self._scalar(syntax, value)
        target = next((v.type for v in values if not isinstance(v, Literal)), values[0].type)
        values = [_temporal(value, target) for value in values]
        both: pa.DataType | None = values[0].type
        for value in values[1:]:
            both = types.common(both, value.type)
            if both is None:
                got = " and ".join(_described(v) for v in values)
                raise self._error(node, f"must have values of types that compare; got {got}; CAST one side")
        return values

    def _boolean(self, node: Syntax) -> Expr:
        return Call(types.BOOL, node.op, tuple(self.boolean(arg) for arg in node.args))

    def _in(self, node: Syntax) -> Expr:
        values = self._aligned(node, [self.bind(arg) for arg in node.args])
        if all(isinstance(value, Literal) for value in values[1:]):
            return Call(types.BOOL, "in", tuple(values))
        both = _common_of(values)
        values = [_in_type(value, both) for value in values]
        tests = tuple(_compared("=", values[0], value) for value in values[1:])
        return tests[0] if len(tests) == 1 else Call(types.BOOL, "or", tests)

    def _choice(self, node: Syntax) -> Expr:
        values = self._aligned(node, [self.bind(arg) for arg in node.args])
        return Call(_common_of(values), node.op, tuple(values))

    def _nullif(self, node: Syntax) -> Expr:
        left, right = self._aligned(node, self._operands(node))
        same = _compared("=", left, right)
        return Call(left.type, "case", (same, Literal(left.type, None), left))

    def _case(self, node: Syntax) -> Expr:
        tests = [self.boolean(arg) for arg in node.args[:-1:2]]
        results = (*node.args[1:-1:2], node.args[-1])
        values = self._aligned(Syntax("case", results, None, node.span), [self.bind(arg) for arg in results])
        pairs = [part for pair in zip(tests, values[:-1], strict=True) for part in pair]
        return Call(_common_of(values), "case", (*pairs, values[-1]))

    # text

    def _text(self, node: Syntax, *, binary: bool = False) -> Expr:
        arg = _or_null(self.bind(node), types.TEXT)
        if arg.type == types.TEXT or (binary and arg.type == types.BINARY):
            return arg
        raise self._error(node, f"must be text; got {_described(arg)}; CAST it AS STRING")

    def _text_call(self, node: Syntax, type_: pa.DataType) -> Expr:
        return Call(type_, node.op, (self._text(node.args[0]),))

    def _like(self, node: Syntax) -> Expr:
        return Call(types.BOOL, node.op, tuple(self._text(arg) for arg in node.args), node.value)

    def _concat(self, node: Syntax) -> Expr:
        return Call(types.TEXT, "concat", tuple(self._text(arg) for arg in node.args))

    def _substring(self, node: Syntax) -> Expr:
        text = self._text(node.args[0], binary=True)
        places = [_or_null(self.bind(arg), types.INT) for arg in node.args[1:]]
        for syntax, place in zip(node.args[1:], places, strict=True):
            if not pt.is_integer(place.type):
                raise self._error(syntax, f"must be a whole number; got {_described(place)}; CAST it AS INT")
        return Call(text.type, "substring", (text, *places))

    # dates

    def _date(self, node: Syntax) -> Expr:
        arg = _temporal(_or_null(self.bind(node), pa.date32()), pa.date32())
        if pt.is_date(arg.type):
            return arg
        if pt.is_timestamp(arg.type) or arg.type == types.TEXT:
            return Call(pa.date32(), "cast", (arg,))
        raise self._error(node, f"must be a date; got {_described(arg)}; CAST it AS DATE")

    def _date_add(self, node: Syntax, op: str) -> Expr:
        if node.args[1].op == "interval":
            return self.bind(Syntax(op, node.args, None, node.span))
        date, days = self._date(node.args[0]), _or_null(self.bind(node.args[1]), types.INT)
        return self._calculated(node, date, days, op)

    def _datediff(self, node: Syntax) -> Expr:
        return Call(pa.int32(), "datediff", (self._date(node.args[0]), self._date(node.args[1])))

    def _date_part(self, node: Syntax) -> Expr:
        return Call(pa.int32(), node.op, (self._date(node.args[0]),))


def _described(expr: Expr) -> str:
    return f"{expr} ({types.name(expr.type)})"


def _common_of(values: list[Expr]) -> pa.DataType:
    both = values[0].type
    for value in values[1:]:
        both = types.common(both, value.type)
    return both


def _duration(micros: int) -> Literal:
    """A constant duration in the coarsest unit that holds it, so that a column keeps its own unit."""
    unit = "s" if micros % 1_000_000 == 0 else ("ms" if micros % 1000 == 0 else "us")
    return Literal(pa.duration(unit), timedelta(microseconds=micros))


def _days(value: Expr, other: Expr) -> Expr:
    """A constant of whole days beside a date is a number of days, so that the sum stays a date."""
    constant = value.value if isinstance(value, Literal) and pt.is_date(other.type) else None
    if isinstance(constant, timedelta) and constant % _DAY == timedelta(0):
        return Literal(types.INT, constant // _DAY)
    return value


def _temporal(value: Expr, target: pa.DataType) -> Expr:
    """A text literal beside a moment is read as one; without a zone beside one with, as UTC."""
    if not isinstance(value, Literal) or value.value is None:
        return value
    if value.type == types.TEXT and pt.is_date(target):
        day = literal.parse_date(value.value)
        return value if day is None else Literal(pa.date32(), day)
    if value.type == types.TEXT and pt.is_timestamp(target):
        moment = literal.parse_timestamp(value.value)
        if moment is None:
            return value
        value = Literal(pa.timestamp("us", "UTC" if moment.tzinfo else None), moment)
    return _zoned(value, target)


def _zoned(value: Expr, target: pa.DataType) -> Expr:
    """A constant moment beside one with a zone is in UTC."""
    moment = pt.is_date(value.type) or pt.is_timestamp(value.type)
    if isinstance(value, Literal) and moment and pt.is_timestamp(target) and target.tz:
        return _folded(Call(pa.timestamp("us", "UTC"), "cast", (value,)))
    return value


def _or_null(value: Expr, type_: pa.DataType) -> Expr:
    """An untyped NULL gets the type that its place asks for."""
    return Literal(type_, None) if pt.is_null(value.type) else value


def _shortest(value: Expr) -> Expr:
    """A whole number as a decimal of no more digits than it has."""
    if not isinstance(value, Literal) or value.value is None or not pt.is_integer(value.type):
        return value
    return Literal(pa.decimal128(len(str(abs(value.value))), 0), Decimal(value.value))


def _compared(op: str, left: Expr, right: Expr) -> Expr:
    """A comparison. Where 38 digits do not hold both decimals, Spark rounds them first: then that is in the tree."""
    both = types.common(left.type, right.type)
    return _folded(Call(types.BOOL, op, (_in_type(left, both), _in_type(right, both))))


def _in_type(value: Expr, both: pa.DataType) -> Expr:
    prepared = _prepared(value, both)
    return Call(both, "cast", (prepared,)) if types.loses_digits(prepared.type, both) else prepared


def _prepared(value: Expr, both: pa.DataType) -> Expr:
    """A number in the type of the comparison already, so that it is not converted at every batch."""
    if not isinstance(value, Literal) or not types.is_numeric(both) or value.type == both:
        return value
    return Literal(both, convert(value.scalar, both).as_py())


def _folded(expr: Expr) -> Expr:
    if not isinstance(expr, Call) or not all(isinstance(arg, Literal) for arg in expr.args):
        return expr
    value = evaluate(expr, {}, 1)[0]
    try:
        return Literal(expr.type, value.as_py())
    except (
        OverflowError
    ):  # an interval, or a moment, that Python has no object for: Arrow computes with it all the same
        return expr
