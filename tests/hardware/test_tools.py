"""Verilog, structure, strips and the command."""

import json
from pathlib import Path

import pytest
from amaranth.hdl import unsigned
from typer.testing import CliRunner

from watersmeet.cli.app import app
from watersmeet.errors import OptionError
from watersmeet.hardware.blocks import Buffer, Fifo
from watersmeet.hardware.joins.handshake import HandshakeJoin
from watersmeet.hardware.joins.split_join import SplitJoin
from watersmeet.hardware.multiway import CircularMJ, StashedMJ
from watersmeet.hardware.simulate import observed, simulate
from watersmeet.hardware.tools import synth, verilog
from watersmeet.hardware.tools.draw import as_text, columns, draw
from watersmeet.hardware.tools.strip import meeting, picture, rows
from watersmeet.hardware.tools.structure import structure
from watersmeet.hardware.tools.synth import resources


def test_the_structure_is_that_of_the_component() -> None:
    found = structure(SplitJoin(4, 16))
    assert [[name.split("_")[0] for name in layer] for layer in columns(found)] == [
        ["d0"],
        ["d1", "d1"],
        ["core"] * 4,
        ["g0", "g0"],
        ["g1"],
    ]
    assert len(found.links) == 14
    assert "[words] -> d0_0.i (Fork), 66 bits" in as_text(found)
    assert "g1_0.o (GNode) -> [results], 128 bits" in as_text(found)
    light = structure(SplitJoin(3, 12, scalable=0))
    assert {(link.source, link.target) for link in light.links} >= {
        ("", "core_0"),
        ("", "core_2"),
        ("core_1", "g0_0"),
    }


def test_blocks_without_streams_between_them_have_wires() -> None:
    found = structure(HandshakeJoin(3, 6, 6))
    chain = {("core_0", "core_1"), ("core_1", "core_0"), ("core_1", "core_2"), ("core_2", "core_1")}
    assert {pair for pair in found.wires if "admission" not in pair} == chain
    assert {("admission", f"core_{k}") for k in range(3)} <= set(found.wires)
    assert ["core_0", "core_1", "core_2"] in columns(found)


def test_links_do_not_point_back_unless_there_is_a_ring() -> None:
    layers = columns(structure(CircularMJ(3, 4)))
    at = {name: k for k, names in enumerate(layers) for name in names}
    assert [at[f"chain_{k}"] for k in range(3)] == [0, 1, 2]
    assert [at[f"stage_{k}"] for k in range(3)] == [1, 2, 3]
    assert layers[-1] == ["collection"]


def test_a_block_that_is_all_there_is_is_opened() -> None:
    found = structure(StashedMJ(4, 4))
    assert columns(found) == [["entry"], ["first"], ["second"], ["collection"], ["exit"]]
    assert {(link.source, link.target) for link in found.links} == {
        ("", "entry"),
        ("entry", "first"),
        ("first", "second"),
        ("first", "collection"),
        ("second", "collection"),
        ("collection", "exit"),
        ("exit", ""),
    }
    assert set(found.wires) == {("first", "second"), ("second", "first")}


def test_pictures_are_drawn(tmp_path: Path) -> None:
    draw(structure(SplitJoin(2, 4)), tmp_path / "blocks.png")
    trace = simulate(Fifo(unsigned(8), 4), {"i": [1, 2, 3]}, watch=True, simulator="python")
    picture(Fifo(unsigned(8), 4), trace, meeting(trace), tmp_path / "cycles.png")
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("blocks.png", "cycles.png"))


def test_a_strip_shows_what_moved_in_which_cycle() -> None:
    with observed() as seen:
        simulate(Fifo(unsigned(8), 4), {"i": [7, 8]}, idle=4, simulator="python")
    ((design, trace),) = seen
    heads, lines = rows(design, trace, range(5))
    assert heads == ["i in", "state", "o out"]
    assert lines == [
        ["#0", "", ""],
        ["#1", "level 1", ""],
        ["", "level 2", "7"],
        ["", "level 1", "8"],
        ["", "", ""],
    ]


def test_verilog_has_shared_modules_once() -> None:
    text = verilog(SplitJoin(4, 16))
    assert text.count("module shared_0_joincore(") == 1
    assert text.count("shared_0_joincore core_") == 4
    assert "module top(" in text


def test_cells_are_counted_by_kind() -> None:
    cells = {
        "LUT4": 10,
        "LUT6": 2,
        "FDRE": 3,
        "TRELLIS_FF": 4,
        "DP16KD": 1,
        "RAMB36E1": 2,
        "TRELLIS_DPR16X4": 5,
        "CCU2C": 6,
    }
    found = resources(cells)
    assert found == {
        "luts": 12,
        "registers": 7,
        "block_rams": 3,
        "lut_rams": 5,
        "carries": 6,
        "multipliers": 0,
    }


def test_what_cannot_be_synthesised_is_said() -> None:
    with pytest.raises(OptionError, match="target must be one of ecp5, xilinx; got 'asic'"):
        synth(Buffer(unsigned(8)), "asic")
    with pytest.raises(OptionError, match="seeds must be for ecp5"):
        synth(Buffer(unsigned(8)), "xilinx", seeds=[1])


@pytest.mark.slow
def test_a_block_is_placed_and_has_a_clock_of_its_seed() -> None:
    found = synth(Buffer(unsigned(8)), "ecp5", seeds=[1, 2], device="25k", seconds=600)
    assert set(found.clock) == {1, 2}
    assert all(clock > 150 for clock in found.clock.values()), found.clock  # a LUT between registers
    assert found.device == "LFE5U-25F, speed grade 6"
    assert "nextpnr-ecp5" in found.tool
    assert found.resources["registers"] >= 2 * 9


def test_the_command_lists_and_runs() -> None:
    listed = CliRunner().invoke(app, ["hardware", "list"])
    assert "split_join" in listed.output
    wrong = CliRunner().invoke(app, ["hardware", "run", "split_join", "--set", "cores"])
    assert "--set must be NAME=NUMBER; got 'cores'" in str(wrong.exception)


def test_a_design_that_loses_results_as_printed_says_so_and_is_no_failure() -> None:
    small = ["--cores", "2", "--window", "4", "--simulator", "python"]
    done = CliRunner().invoke(app, ["hardware", "run", "parallel_mj", "--set", "exact=0", *small])
    assert done.exit_code == 0, done.output
    assert "the same and more, by design: as printed (6.2.4)" in " ".join(done.output.split())


@pytest.mark.slow
def test_the_command_measures_figures(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        ["hardware", "figures", "split_join", "--json", str(tmp_path / "f.json"), "--plots", str(tmp_path)],
    )
    assert done.exit_code == 0, done.output
    figures = json.loads((tmp_path / "f.json").read_text())
    assert figures
    assert all(figure["met"] or figure["note"] for figure in figures)
    assert (tmp_path / "hardware-split_join.png").exists()
