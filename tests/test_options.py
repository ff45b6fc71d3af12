"""Options are frozen values: refused when they are made, equal whichever way they were said, and saved as they always were."""

import json
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import Any

import pytest

import watersmeet as wm
from watersmeet.api.options import JoinOptions
from watersmeet.api.stream_join import OPTIONS
from watersmeet.flow.catalog import FLOWS, MULTIWAY
from watersmeet.flow.options import MODELS, FlowModel, FlowOptions

ON = "r.x = s.a"
NAMES = "three_step, handshake, low_latency_handshake, split_join, pan_join, linear_mj, circular_mj, stashed_mj, parallel_mj"
WINDOWS = {"r": wm.Rows(10), "s": wm.Rows(10)}


def joined(**options: Any) -> wm.StreamJoin:
    return wm.StreamJoin(ON, **WINDOWS, **options)


VALUES: list[tuple[FlowModel, dict[str, Any]]] = [
    (wm.ThreeStep(order="outer", precision=4), {"flow": "three_step", "order": "outer", "precision": 4}),
    (wm.SplitJoin(cores=2, fanout=4), {"flow": "split_join", "cores": 2, "fanout": 4}),
    (wm.SplitJoin(order="adaptive", target_rate=1e6), {"flow": "split_join", "order": "adaptive", "target_rate": 1e6}),
    (wm.PanJoin(collect="10 ms", queue=3), {"flow": "pan_join", "collect": "10 ms", "queue": 3}),
    (wm.PanJoin(on_core_failure="continue"), {"flow": "pan_join", "on_core_failure": "continue"}),
    (wm.Handshake(cores=3, granularity=7), {"flow": "handshake", "cores": 3, "granularity": 7}),
    (wm.LowLatencyHandshake(cores=3), {"flow": "low_latency_handshake", "cores": 3}),
]  # fmt: skip


@pytest.mark.parametrize(("value", "keywords"), VALUES)
def test_a_flow_value_says_the_same_as_its_keywords(value: FlowModel, keywords: dict[str, Any]) -> None:
    by_value, by_keywords = joined(flow=value).options, joined(**keywords).options
    assert by_value == by_keywords
    assert by_value.model == by_keywords.model == value
    both = {name: said for name, said in keywords.items() if name != "flow"}
    assert joined(flow=value, **both).options == by_keywords


def test_keywords_say_what_a_value_leaves_open() -> None:
    assert joined(flow=wm.SplitJoin(fanout=3), cores=2, queue=5).options.model == wm.SplitJoin(
        fanout=3, cores=2, queue=5
    )


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (
            {"flow": wm.SplitJoin(cores=2), "cores": 3},
            "cores= must be the same wherever it is given; got cores=3 beside SplitJoin(cores=2); leave one of them out",
        ),
        (
            {"flow": wm.PanJoin(collect="1 s"), "collect": 2},
            "collect= must be the same wherever it is given; got collect=2 beside PanJoin(collect='1 s'); leave one of them out",
        ),
        (
            {"flow": wm.SplitJoin},
            f"flow= must be one of {NAMES}; got the class SplitJoin; say SplitJoin()",
        ),
        (
            {"flow": 7},
            f"flow= must be one of {NAMES}; got 7",
        ),
        (
            {"flow": wm.Handshake(), "fanout": 3},
            "fanout= goes with flow='split_join', 'parallel_mj'; got flow='handshake'",
        ),
        ({"flow": wm.SplitJoin(), "collect": 1}, "collect= goes with flow='pan_join'; got flow='split_join'"),
        ({"flow": wm.ThreeStep(), "cores": 2}, "flow='three_step' runs on one core; got cores=2"),
        (
            {"flow": wm.Handshake(cores=2), "order": "outer"},
            "flow='handshake' cannot promise order='outer'; flows that can: 'three_step', 'split_join', 'pan_join'",
        ),
        (
            {"flow": wm.ThreeStep(), "on_core_failure": "continue"},
            "flow='three_step' cannot go on without a core, as on_core_failure='continue' asks; flows that can: 'split_join', 'pan_join'",
        ),
        (
            {"fanout": 2},
            f"fanout= goes with a flow; got no flow=, which may be one of {NAMES}",
        ),
        (
            {"on_core_failure": "continue"},
            f"on_core_failure= goes with a flow; got no flow=, which may be one of {NAMES}",
        ),
        (
            {"flow": wm.SplitJoin(order="inner"), "result": "count"},
            "order='inner' needs result='pairs', which can be put in order; got result='count'",
        ),
        (
            {"flow": wm.ThreeStep(order="inner"), "how": "semi"},
            "order='inner' is an order of pairs; got how='semi', which gives none",
        ),
        ({"select": 3}, "select= must be a SQL select list; got 3"),
        ({"result": "rows"}, "result= must be one of pairs, count, ranges; got 'rows'"),
        ({"subwindow": 0}, "subwindow= must be a whole number of at least 1; got 0"),
        ({"cores": True}, "cores= must be a whole number of at least 1; got True"),
        ({"cores": None}, "cores= must be a whole number of at least 1; got None"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(wm.OptionError) as error:
        joined(**options)
    assert str(error.value) == refusal


@pytest.mark.parametrize(
    ("kind", "options", "refusal"),
    [
        (wm.SplitJoin, {"fanout": 1}, "fanout= must be a whole number of at least 2; got 1"),
        (wm.SplitJoin, {"cores": 0}, "cores= must be a whole number of at least 1; got 0"),
        (wm.Handshake, {"queue": 0}, "queue= must be a whole number of at least 1; got 0"),
        (wm.LowLatencyHandshake, {"granularity": 1.5}, "granularity= must be a whole number of at least 1; got 1.5"),
        (wm.ThreeStep, {"order": "some"}, "order= must be one of none, outer, inner, adaptive; got 'some'"),
        (wm.ThreeStep, {"precision": 3}, "precision= goes with order='outer' or 'inner'; got order='none'"),
        (
            wm.PanJoin,
            {"order": "adaptive"},
            "order='adaptive' needs target_rate= (rows a second) or target_latency= (seconds a push); got neither",
        ),
        (
            wm.PanJoin,
            {"order": "adaptive", "target_rate": 1, "target_latency": 1},
            "order='adaptive' needs target_rate= (rows a second) or target_latency= (seconds a push); got target_rate and target_latency",
        ),
        (wm.PanJoin, {"target_rate": 0}, "target_rate= must be a number above 0; got 0"),
        (wm.PanJoin, {"target_latency": 1}, "target_latency= goes with order='adaptive'; got order='none'"),
        (wm.PanJoin, {"collect": True}, "collect= must be a text like '10 ms' or a number of seconds; got True"),
        (wm.PanJoin, {"collect": -1}, "collect= must be finite and not negative; got -1"),
        (wm.PanJoin, {"on_core_failure": "no"}, "on_core_failure= must be one of raise, continue; got 'no'"),
    ],
)  # fmt: skip
def test_a_flow_value_refuses_what_makes_no_sense(
    kind: type[FlowModel], options: dict[str, Any], refusal: str
) -> None:
    with pytest.raises(wm.OptionError) as error:
        kind(**options)
    assert str(error.value) == refusal


def test_values_do_not_change() -> None:
    with pytest.raises(FrozenInstanceError):
        wm.SplitJoin().cores = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        joined().options.cores = 2  # type: ignore[misc]


def test_a_flow_has_the_options_that_it_can_use_and_no_others() -> None:
    assert list(MODELS) == [*FLOWS, *MULTIWAY]
    everything = set(FlowOptions.__annotations__)
    for model in MODELS.values():
        own = {field.name for field in fields(model)}
        assert own < everything
        assert {name for name in everything if model.takes(name)} == own
        for name in everything - own:
            with pytest.raises(TypeError, match=name):
                model(**{name: 2})


def test_every_keyword_is_an_option() -> None:
    assert {field.name for field in fields(JoinOptions)} == {"condition", *OPTIONS} - {"windows", "schemas"}


# What version 0.1.0 has always written down.
SAVED = {
    "condition": ON, "how": "inner", "select": "*", "index": "auto", "cores": 2, "result": "pairs", "subwindow": None,
    "flow": "split_join", "order": "outer", "precision": None, "granularity": None, "fanout": 4, "queue": None,
    "on_core_failure": "raise", "target_rate": None, "target_latency": None, "collect": None,
}  # fmt: skip


def test_a_join_with_a_flow_value_is_saved_as_ever_and_goes_on(tmp_path: Path) -> None:
    with joined(flow=wm.SplitJoin(cores=2, fanout=4), order="outer") as join:
        assert join.push(r={"x": [1, 2]}).count == 0
        join.save(tmp_path)
        header = json.loads((tmp_path / "state.json").read_text())
        assert list(header["options"].items()) == list(SAVED.items())
        with wm.StreamJoin.load(tmp_path) as loaded:
            assert loaded.options == join.options == JoinOptions.from_json(SAVED)
            assert loaded.push(s={"a": [2]}).to_arrow().to_pydict() == {"x": [2], "a": [2]}


def test_an_order_alone_picks_a_flow_and_is_saved_without_one() -> None:
    options = joined(order="inner", cores=2).options
    assert options.flow is None
    assert options.model == wm.SplitJoin(order="inner", cores=2)
    assert options.to_json()["flow"] is None
    assert joined(cores=2).options.model is None
