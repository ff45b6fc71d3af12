"""A residual as a program for the machine of ``kernels/program.py``: arithmetic and comparisons of numbers, AND, OR, NOT, IS NULL.

What a program computes is what ``evaluate.py`` computes, to the last bit: doubles as IEEE has them, integers that saturate, NaN above
all numbers, Kleene's truth. What it does not know (texts, decimals, casts that may fail) stays with ``evaluate.py``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from watersmeet.codes.column import number_type, raw, validity
from watersmeet.kernels import program as machine
from watersmeet.sql import types
from watersmeet.sql.evaluate import plain
from watersmeet.sql.tree import Call, Column, Expr, Literal

MOST_COLUMNS = 62  # of a stream: they have a bit each
MOST_REGISTERS = 64

_FLOAT = {
    "+": machine.ADD_FLOAT,
    "-": machine.SUBTRACT_FLOAT,
    "*": machine.MULTIPLY_FLOAT,
    "/": machine.DIVIDE_FLOAT,
}
_INTEGER = {"+": machine.ADD_INTEGER, "-": machine.SUBTRACT_INTEGER, "*": machine.MULTIPLY_INTEGER}
_COMPARED = {  # by operation: of doubles, of integers, whether the sides are turned round, whether the answer is
    "=": (machine.EQUAL_FLOAT, machine.EQUAL_INTEGER, False, False),
    "<>": (machine.EQUAL_FLOAT, machine.EQUAL_INTEGER, False, True),
    "<": (machine.LESS_FLOAT, machine.LESS_INTEGER, False, False),
    "<=": (machine.AT_MOST_FLOAT, machine.AT_MOST_INTEGER, False, False),
    ">": (machine.LESS_FLOAT, machine.LESS_INTEGER, True, False),
    ">=": (machine.AT_MOST_FLOAT, machine.AT_MOST_INTEGER, True, False),
}
_STORED = {machine.LOAD_FLOAT: machine.LOAD_STORED_FLOAT, machine.LOAD_INTEGER: machine.LOAD_STORED_INTEGER}


class UnknownError(Exception):
    """An expression that the machine has no instructions for."""


@dataclass(frozen=True)
class Program:
    """Instructions, once for each stream that may be the probing one; what they read of each stream; and the registers they need."""

    columns: Mapping[str, tuple[Column, ...]]
    code: Mapping[str, np.ndarray]  # by probing stream
    floats: np.ndarray
    integers: np.ndarray
    result: int
    registers: int
    divides: bool  # whether NULL can come of values

    def inputs(self, stream: str, batch: pa.RecordBatch) -> list[np.ndarray]:
        """What is read of a stream's rows, as int64 (doubles by their bits); then, by row, a bit for each column that is NULL."""
        found, nulls = [], np.zeros(batch.num_rows, np.int64)
        for place, column in enumerate(self.columns[stream]):
            values = plain(batch.column(column.name), column.type)
            found.append(_words(values))
            valid = validity(values)
            if valid is not None:
                nulls |= (~valid).astype(np.int64) << place
        return [*found, nulls]

    def width(self, stream: str) -> int:
        """How many arrays ``inputs`` gives."""
        return len(self.columns[stream]) + 1


def _words(values: pa.Array) -> np.ndarray:
    if pt.is_floating(values.type):
        return raw(values, number_type(values.type)).astype(np.float64).view(np.int64)
    if pt.is_boolean(values.type):
        values = values.cast(pa.int8())
    elif pt.is_temporal(values.type):
        values = values.view(
            pa.int32() if pt.is_date32(values.type) or pt.is_time32(values.type) else pa.int64()
        )
    return raw(values, number_type(values.type)).astype(np.int64)


def compiled(expr: Expr, streams: Sequence[str]) -> Program | None:
    """The program of a truth value over the columns of two streams; None: something in it is unknown."""
    try:
        return _Compiler(streams).program(expr)
    except UnknownError:
        return None


class _Compiler:
    def __init__(self, streams: Sequence[str]) -> None:
        self.columns: dict[str, list[Column]] = {stream: [] for stream in streams}
        self.code: list[tuple[int, int, int | str, int]] = []
        self.floats: list[float] = []
        self.integers: list[int] = []
        self._made: dict[tuple[Expr, bool], int] = {}  # registers, by expression and whether as a double

    def program(self, expr: Expr) -> Program:
        result = self.value(expr)
        if len(self.code) > MOST_REGISTERS or any(len(one) > MOST_COLUMNS for one in self.columns.values()):
            raise UnknownError
        return Program(
            {stream: tuple(columns) for stream, columns in self.columns.items()},
            {stream: self._seen_from(stream) for stream in self.columns},
            np.array(self.floats, np.float64),
            np.array(self.integers, np.int64),
            result,
            len(self.code),
            any(op == machine.DIVIDE_FLOAT for op, *_ in self.code),
        )

    def _seen_from(self, probing: str) -> np.ndarray:
        """The code, where rows of this stream are probing."""
        lines = [
            (op, r, a, b) if isinstance(a, int) else (op if a == probing else _STORED[op], r, b, 0)
            for op, r, a, b in self.code
        ]
        return np.array(lines, np.int64)

    def _emit(self, op: int, a: int | str, b: int | None = None) -> int:
        self.code.append((op, len(self.code), a, a if b is None and isinstance(a, int) else b or 0))
        return len(self.code) - 1

    def value(self, expr: Expr) -> int:
        """The register in which the expression's value is: a double if its type is one, else an integer or a truth value."""
        key = expr, False
        if key not in self._made:
            self._made[key] = self._value(expr)
        return self._made[key]

    def double(self, expr: Expr) -> int:
        """The same as a double, of any number."""
        if isinstance(expr, Literal):
            return self._constant(expr)
        if pt.is_floating(expr.type):
            return self.value(expr)
        if not _is_integer(expr.type):
            raise UnknownError
        key = expr, True
        if key not in self._made:
            self._made[key] = self._emit(machine.TO_FLOAT, self.value(expr))
        return self._made[key]

    def _constant(self, expr: Literal) -> int:
        if not isinstance(expr.value, int | float | Decimal) or isinstance(expr.value, bool):
            raise UnknownError
        if pt.is_float32(expr.type):
            raise UnknownError
        try:
            self.floats.append(float(expr.value))
        except OverflowError:
            raise UnknownError from None
        return self._emit(machine.CONSTANT_FLOAT, len(self.floats) - 1, 0)

    def _value(self, expr: Expr) -> int:
        if isinstance(expr, Column):
            return self._column(expr)
        if isinstance(expr, Literal):
            if expr.type == types.DOUBLE:
                return self._constant(expr)
            if not _is_integer(expr.type) or expr.value is None:
                raise UnknownError
            self.integers.append(expr.value)
            return self._emit(machine.CONSTANT_INTEGER, len(self.integers) - 1, 0)
        assert isinstance(expr, Call)
        op, args = expr.op, expr.args
        if op in ("and", "or"):
            found = self.value(args[0])
            for arg in args[1:]:
                found = self._emit(machine.AND if op == "and" else machine.OR, found, self.value(arg))
            return found
        if op == "not":
            return self._emit(machine.NOT, self.value(args[0]))
        if op == "is_null":
            return self._emit(machine.IS_NULL, self.value(args[0]))
        if op in _COMPARED:
            return self._comparison(op, *args)
        return self._arithmetic(expr)

    def _column(self, column: Column) -> int:
        known = self.columns[column.stream]
        if column not in known:
            if not (_is_plain(column.type) or pt.is_float32(column.type)):
                raise UnknownError
            known.append(column)
        load = machine.LOAD_FLOAT if pt.is_floating(column.type) else machine.LOAD_INTEGER
        return self._emit(load, column.stream, known.index(column))

    def _comparison(self, op: str, left: Expr, right: Expr) -> int:
        of_floats, of_integers, turned, negated = _COMPARED[op]
        both = types.common(left.type, right.type)
        single = pt.is_float32(left.type) and pt.is_float32(right.type)
        if both == types.DOUBLE or single:
            compare, sides = of_floats, [self.double(left), self.double(right)]
        elif both is not None and (_is_integer(both) or left.type == right.type) and _is_plain(both):
            compare, sides = of_integers, [self.value(left), self.value(right)]
        else:
            raise UnknownError
        found = self._emit(compare, *(sides[::-1] if turned else sides))
        return self._emit(machine.NOT, found) if negated else found

    def _arithmetic(self, expr: Call) -> int:
        op, args, double = expr.op, expr.args, expr.type == types.DOUBLE
        if not double and expr.type != types.INT:
            raise UnknownError
        if op in _FLOAT and double:
            return self._emit(_FLOAT[op], self.double(args[0]), self.double(args[1]))
        if op in _INTEGER and not double and all(_is_integer(arg.type) for arg in args):
            return self._emit(_INTEGER[op], self.value(args[0]), self.value(args[1]))
        if op == "power" and isinstance(args[1], Literal) and args[1].value == 2:
            base = self.double(args[0])
            return self._emit(machine.MULTIPLY_FLOAT, base, base)
        if op == "sqrt":
            return self._emit(machine.ROOT_FLOAT, self.double(args[0]))
        if op == "cast" and double and (_is_integer(args[0].type) or pt.is_floating(args[0].type)):
            return self.double(args[0])
        if op in ("abs", "negative") and double and args[0].type == expr.type:
            return self._emit(
                machine.ABSOLUTE_FLOAT if op == "abs" else machine.NEGATE_FLOAT, self.value(args[0])
            )
        if op in ("abs", "negative") and not double and _is_integer(args[0].type):
            return self._emit(
                machine.ABSOLUTE_INTEGER if op == "abs" else machine.NEGATE_INTEGER, self.value(args[0])
            )
        raise UnknownError


def _is_integer(type_: pa.DataType) -> bool:
    """Integers that int64 holds."""
    return bool(pt.is_integer(type_)) and not pt.is_uint64(type_)


def _is_plain(type_: pa.DataType) -> bool:
    """Whether values are words of the machine: doubles, integers, truth values, moments."""
    return bool(_is_integer(type_) or type_ == types.DOUBLE or pt.is_boolean(type_) or pt.is_temporal(type_))
