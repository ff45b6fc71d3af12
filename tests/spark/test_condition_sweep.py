"""Conditions mean what they mean in Spark with ANSI off: random ones, on rows of values that hurt, by every kind of index."""

import random
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import watersmeet as wm
from spark.sweep import SCHEMA, Sweep, Text, table
from test_expression_parse import LITERALS
from watersmeet.errors import ConditionError, OptionError
from watersmeet.sql import Select

ROWS = 42
AT_ONCE = 120  # conditions in one Spark job: as many columns of one cross join
INDEXES = ["scan", "hash", "bi_sort", "rap_table", "wib_tree"]
RULES = "org.apache.spark.sql.catalyst.optimizer"
SETTINGS = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
    # Rules that change results: LOWER(UPPER('ß')) becomes LOWER('ß'), and a cast of INT to FLOAT to DOUBLE one to DOUBLE.
    "spark.sql.optimizer.excludedRules": f"{RULES}.SimplifyCaseConversionExpressions,{RULES}.SimplifyCasts",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",  # compiling a hundred columns takes longer than to interpret them
}


@pytest.fixture
def plain_spark(spark: Any) -> Iterator[Any]:
    """The session with ANSI off, and as it was afterwards."""
    before = {name: spark.conf.get(name, None) for name in SETTINGS}
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def spark_pairs(spark: Any, rows: dict[str, pa.Table], texts: list[str]) -> list[np.ndarray | None]:
    """Which pairs satisfy each text, by Spark; None where Spark itself has no answer."""
    for stream, batch in rows.items():
        spark.createDataFrame(batch).createOrReplaceTempView(stream)
    return answers(spark, texts)


def answers(spark: Any, texts: list[str]) -> list[np.ndarray | None]:
    """All texts in one job. Should a bug of Spark's optimizer end it, halves are tried, down to the text that it cannot do."""
    columns = ", ".join(f"COALESCE({text}, FALSE) AS c{place}" for place, text in enumerate(texts))
    try:
        found = spark.sql(f"SELECT r.id AS a, s.id AS b, {columns} FROM r CROSS JOIN s").toArrow()
    except Exception as error:
        if len(texts) > 1:
            half = len(texts) // 2
            return answers(spark, texts[:half]) + answers(spark, texts[half:])
        if "INTERNAL_ERROR" not in "".join(traceback.format_exception(error)):
            raise
        return [None]
    a, b = (found.column(name).to_numpy() for name in "ab")
    results: list[np.ndarray | None] = []
    for place in range(len(texts)):
        match = np.zeros((ROWS, ROWS), bool)
        match[a, b] = found.column(f"c{place}").to_numpy()
        results.append(match)
    return results


def our_pairs(text: str, rows: dict[str, pa.Table], index: str) -> np.ndarray | None:
    """Which pairs satisfy the text, by us; None if this kind of index cannot answer it."""
    match = np.zeros((ROWS, ROWS), int)
    windows = {"r": wm.Unbounded(), "s": wm.Unbounded()}
    try:
        join = wm.StreamJoin(text, windows=windows, select="r.id AS a, s.id AS b", index=index,
                             schemas={"r": SCHEMA, "s": SCHEMA})  # fmt: skip
    except OptionError:
        return None
    half = ROWS // 2  # so that each stream probes the other
    parts = [rows["r"].slice(0, half), rows["s"], rows["r"].slice(half)]
    for stream, part in zip("rsr", parts, strict=True):
        found = join.push({stream: part}).to_arrow()
        np.add.at(match, (found.column("a").to_numpy(), found.column("b").to_numpy()), 1)
    assert match.max() <= 1, f"{text} by {index}: a pair was found twice"
    return match > 0


def difference(
    text: Text, expected: np.ndarray, found: np.ndarray, rows: dict[str, pa.Table], index: str
) -> str:
    wrong = np.argwhere(expected != found)
    told = [
        f"    Spark {bool(expected[a, b])}, r {shown(rows['r'], a, text.ours)}, s {shown(rows['s'], b, text.ours)}"
        for a, b in wrong[:2].tolist()
    ]
    return f"{text.ours} ({index}): {len(wrong)} pairs differ\n" + "\n".join(told)


def shown(rows: pa.Table, row: int, text: str) -> dict[str, Any]:
    """The columns of one row that the text speaks of; moments as the numbers that store them, as Python's are too few."""
    names = [name for name in SCHEMA.names if f".{name}" in text]
    scalars = {name: rows.column(name)[row] for name in names}
    return {
        name: scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
        for name, scalar in scalars.items()
    }


def differences(spark: Any, seed: int, conditions: int) -> list[str]:
    """What differs between Spark and us in so many random conditions."""
    sweep, dice = Sweep(seed), random.Random(seed)
    told: list[str] = []
    for start in range(0, conditions, AT_ONCE):
        rows = {stream: table(dice, ROWS) for stream in "rs"}
        texts = [sweep.condition() for _ in range(min(AT_ONCE, conditions - start))]
        expected = spark_pairs(spark, rows, [text.spark for text in texts])
        answered = [
            (text, matches) for text, matches in zip(texts, expected, strict=True) if matches is not None
        ]
        assert len(answered) >= 0.98 * len(texts), "Spark has too few answers"
        for text, matches in answered:
            for index in ("auto", "scan", dice.choice(INDEXES)):
                found = our_pairs(text.ours, rows, index)
                if found is not None and (found != matches).any():
                    told.append(difference(text, matches, found, rows, index))
                    break
    return told


def test_some_conditions_mean_what_they_mean_in_spark(plain_spark: Any) -> None:
    told = differences(plain_spark, seed=9, conditions=AT_ONCE)
    assert not told, "\n".join(told)


def test_a_join_of_spark_finds_what_its_columns_say(plain_spark: Any) -> None:
    """The sweep asks Spark for columns of a cross join; its joins by the same text find the same pairs."""
    dice = random.Random(5)
    rows = {stream: table(dice, ROWS) for stream in "rs"}
    texts = ["r.f = s.f", "r.m = s.f", "ABS(r.f - s.f) < 0.3", "r.x <=> s.i AND r.b = s.b"]
    for text, match in zip(texts, spark_pairs(plain_spark, rows, texts), strict=True):
        found = plain_spark.sql(f"SELECT r.id AS a, s.id AS b FROM r JOIN s ON {text}").toArrow()
        pairs = np.zeros((ROWS, ROWS), bool)
        pairs[found.column("a").to_numpy(), found.column("b").to_numpy()] = True
        ours = our_pairs(text, rows, "auto")
        assert match.any()
        assert (pairs == match).all(), text
        assert ours is not None
        assert (ours == pairs).all(), text


@pytest.mark.parametrize("ansi", ["false", "true"])
def test_quotes_are_read_as_in_spark(plain_spark: Any, ansi: str) -> None:
    plain_spark.conf.set("spark.sql.ansi.enabled", ansi)
    texts = [text for text, _ in LITERALS]
    (found,) = plain_spark.sql(f"SELECT {', '.join(texts)}").collect()
    assert dict(zip(texts, found, strict=True)) == dict(LITERALS)


def test_a_star_leaves_out_what_it_leaves_out_in_spark(plain_spark: Any) -> None:
    columns = {"r": ["id", "x", "y"], "s": ["id", "z"]}
    for stream, names in columns.items():
        plain_spark.range(1).selectExpr(*(f"id AS {name}" for name in names)).createOrReplaceTempView(stream)
    schemas = {stream: pa.schema([(name, pa.int64()) for name in names]) for stream, names in columns.items()}
    for text in (
        "* EXCEPT (x, s.id)",
        "r.* EXCEPT (X, y)",
        "* EXCEPT (r.id, z)",
        "r.* EXCEPT (r.id), s.*",
        "* EXCEPT (r.id, s.id, x, y, z), 1 AS a",
    ):
        ours = Select(text).bind(schemas).schema.names
        assert ours == plain_spark.sql(f"SELECT {text} FROM r CROSS JOIN s").columns, text
    for text in (
        "* EXCEPT (id)",
        "r.* EXCEPT (z)",
        "r.* EXCEPT (s.id)",
        "r.* EXCEPT (x, r.x)",
        "r.* EXCEPT ()",
        "r.* EXCEPT x",
        "r.* EXCLUDE (x)",
    ):
        with pytest.raises(ConditionError):
            Select(text).bind(schemas)
        with pytest.raises(Exception, match=r"EXCEPT|AMBIGUOUS|UNRESOLVED|SYNTAX|CANNOT_RESOLVE"):
            plain_spark.sql(f"SELECT {text} FROM r CROSS JOIN s")


@pytest.mark.slow
def test_thousands_of_conditions_mean_what_they_mean_in_spark(plain_spark: Any) -> None:
    seed = random.SystemRandom().randrange(10**9)
    print(f"differences(spark, seed={seed}, conditions=2400)")
    told = differences(plain_spark, seed, conditions=2400)
    assert not told, f"differences(spark, seed={seed}, conditions=2400):\n" + "\n".join(told)


@pytest.mark.slow
def test_compiled_by_spark_conditions_mean_the_same(plain_spark: Any) -> None:
    plain_spark.conf.set("spark.sql.codegen.wholeStage", "true")
    plain_spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    seed = random.SystemRandom().randrange(10**9)
    told = differences(plain_spark, seed, conditions=2 * AT_ONCE)
    assert not told, f"differences(spark, seed={seed}, conditions={2 * AT_ONCE}), compiled:\n" + "\n".join(
        told
    )
