"""A join as plain data: ``describe()`` holds what ``explain()`` and ``stats()`` show, and JSON takes it at any time, in any mode."""

import json
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import watersmeet as wm

BAND = "r.x BETWEEN s.a - 2 AND s.a + 2 AND r.y > 0.1 AND r.name LIKE s.name"
MODES: list[dict[str, Any]] = [
    {},
    {"index": "scan", "cores": 2, "how": "full"},
    {"how": "semi", "select": "r.x"},
    {"result": "count"},
    {"flow": "three_step", "order": "outer", "precision": 3},
    {"flow": wm.SplitJoin(cores=2, fanout=2, order="adaptive", target_rate=1e9)},
    {"flow": wm.PanJoin(cores=2, collect=1000)},
    {"flow": wm.PanJoin(cores=2), "result": "ranges"},
    {"flow": wm.Handshake(cores=2)},
    {"flow": wm.LowLatencyHandshake(cores=2)},
]
WINDOWS = [
    (wm.Rows(20), wm.Rows(20)),
    (wm.Range(timedelta(seconds=15), lateness="2 s"), wm.Range("15 s")),
    (wm.Unbounded(), wm.Range("20 s")),
]


def rows(stream: str, start: int, n: int = 12) -> dict[str, Any]:
    numbers = np.arange(start, start + n)
    columns = {"ts": np.datetime64("2024-05-01", "s") + numbers, "name": [f"{i % 3}" for i in numbers]}
    return {**columns, **({"x": numbers % 7, "y": numbers / n} if stream == "r" else {"a": numbers % 7})}


def plain(value: Any) -> bool:
    """Whether nothing but what JSON knows is in it, also in no disguise."""
    if type(value) is dict:
        return all(type(key) is str and plain(inner) for key, inner in value.items())
    if type(value) is list:
        return all(map(plain, value))
    return value is None or type(value) in (str, int, float, bool)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("options", MODES, ids=str)
def test_json_takes_the_description_at_any_time(options: dict[str, Any], windows: tuple[Any, Any]) -> None:
    with wm.StreamJoin(BAND, r=windows[0], s=windows[1], **options) as join:
        seen = []

        def look() -> None:
            facts = join.describe()
            assert plain(facts)
            assert json.loads(json.dumps(facts)) == facts
            seen.append(facts)
            shown = join.stats()
            assert {name: shown[name] for name in ("results", "pushes", "watermark")} == {
                "results": facts["results"],
                "pushes": facts["pushes"],
                "watermark": facts["watermark"] and facts["watermark"]["value"],
            }

        look()
        join.push(r=rows("r", 0))
        look()
        join.push(s=rows("s", 4))
        look()
        join.push(r=rows("r", 20), s=rows("s", 20))
        look()
        join.finish()
        look()
    look()
    assert [facts["plan"] is None for facts in seen[:3]] == [True, True, False]
    assert seen[1]["streams"]["s"]["schema"] is None
    assert seen[2]["streams"]["s"]["schema"] == {"ts": "timestamp[s]", "name": "string", "a": "int64"}
    assert [facts["ended"] for facts in seen] == ["", "", "", "", "finished", "finished"]
    assert (seen[0]["flow"] is None) is ("flow" not in options)


def test_what_it_tells() -> None:
    join = wm.StreamJoin(BAND, r=wm.Rows(20), s=wm.Range("15 s", lateness="2 s"), flow=wm.PanJoin(collect=60))
    join.push(r=rows("r", 0))
    join.push(s=rows("s", 4))
    facts = join.describe()
    assert facts["options"] == join.options.to_json()
    assert facts["flow"] == {
        "name": "pan_join", "cores": 1, "granularity": 65_536, "order": None, "tuned": False,
        "collect": {"rows": 65_536, "seconds": 60.0, "waiting": 12},
    }  # fmt: skip
    assert facts["streams"]["r"]["window"] == {"rows": 20}
    assert facts["streams"]["s"]["window"] == {"time": "ts", "duration": "15 s", "lateness": "2 s"}
    plan = facts["plan"]
    assert [part["text"] for part in plan["drivers"]] == ["r.x between s.a - 2 and s.a + 2"]
    assert plan["filters"] == {"r": "r.y > 0.1"}
    assert plan["residual"] == "r.name LIKE s.name"
    join.push()
    facts = join.describe()
    assert facts["streams"]["s"]["arrived"] == 12
    assert facts["watermark"] == {"value": facts["watermark"]["value"], "text": "2024-05-01T00:00:13"}
    join.close()


EXPLAINED = """\
StreamJoin left of r and s, 1 core(s)
  condition  r.x BETWEEN s.a - 2 AND s.a + 2 AND r.y > 0.1 AND r.name LIKE s.name
  index      auto: one of bi_sort, rap_table, wib_tree
  driver     r.x between s.a - 2 and s.a + 2   (about 0.58 of all pairs)
  filter r   r.y > 0.1
  residual   r.name LIKE s.name
  stream r   Range(duration=datetime.timedelta(seconds=15), time='ts', lateness='2 s'): 12 rows in sub-windows: 1 bi_sort
  stream s   Unbounded(): 12 rows in sub-windows: 1 bi_sort
  watermark  2024-05-01T00:00:09
  result     pairs: select *"""


def test_the_words_are_these() -> None:
    window = wm.Range(timedelta(seconds=15), lateness="2 s")
    join = wm.StreamJoin(BAND, r=window, s=wm.Unbounded(), how="left")
    join.push(r=rows("r", 0), s=rows("s", 4))
    assert join.explain() == EXPLAINED


def test_the_words_of_a_flow_are_these() -> None:
    join = wm.StreamJoin(
        "r.x = s.a", r=wm.Rows(5), s=wm.Rows(5), flow=wm.PanJoin(collect="10 ms", order="inner")
    )
    assert join.explain() == (
        "StreamJoin inner of r and s, 1 core(s)\n"
        "  condition  r.x = s.a\n"
        "  flow       pan_join on 1 core(s), up to 65,536 rows a message\n"
        "  order      inner order, precision 1\n"
        "  collect    up to 65,536 rows or 0.01 s a batch; 0 rows wait\n"
        "  not bound yet: waiting for the first batch, and so the schema, of both streams\n"
        "  stream r   Rows(n=5): 0 rows in sub-windows: none yet\n"
        "  stream s   Rows(n=5): 0 rows in sub-windows: none yet\n"
        "  result     pairs: select *"
    )


def test_the_numbers_have_these_names() -> None:
    join = wm.StreamJoin("r.x = s.a", r=wm.Rows(5), s=wm.Rows(5))
    shown = join.stats()
    assert list(shown) == ["streams", "results", "pushes", "seconds", "rows_per_second", "watermark"]
    assert list(shown["streams"]["r"]) == [
        "rows", "arrived", "late", "subwindows", "indexes", "index_bytes", "payload_bytes", "bytes",
    ]  # fmt: skip
