"""Payloads as integers and back."""

import subprocess
import sys

import pytest
from amaranth.hdl import signed, unsigned
from amaranth.lib import data, enum
from hypothesis import given
from hypothesis import strategies as st

from watersmeet.errors import DataError
from watersmeet.hardware.blocks import Merge
from watersmeet.hardware.ports import pack, stream_ports, unpack


class Kind(enum.Enum, shape=2):
    NONE = 0
    R = 1
    S = 2


LAYOUT = data.StructLayout(
    {"key": signed(8), "number": 40, "kind": Kind, "rest": data.ArrayLayout(unsigned(30), 2)}
)


@given(
    st.integers(-128, 127),
    st.integers(0, (1 << 40) - 1),
    st.sampled_from(list(Kind)),
    st.lists(st.integers(0, (1 << 30) - 1), min_size=2, max_size=2),
)
def test_unpack_is_the_inverse_of_pack(key: int, number: int, kind: Kind, rest: list[int]) -> None:
    fields = {"key": key, "number": number, "kind": kind, "rest": rest}
    bits = pack(LAYOUT, fields)
    assert bits == LAYOUT.const(fields).as_bits()
    assert unpack(LAYOUT, bits) == fields


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(DataError, match="a field of 8 bits must be from -128 to 127; got 128"):
        pack(LAYOUT, {"key": 128})
    with pytest.raises(DataError, match="must have the fields key, number, kind, rest; got 'value'"):
        pack(LAYOUT, {"value": 1})


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_streams_are_named_by_their_path() -> None:
    ports = stream_ports(Merge(unsigned(70), 2))
    assert [(port.name, port.inward, port.width) for port in ports] == [
        ("i__0", True, 70),
        ("i__1", True, 70),
        ("o", False, 70),
    ]


def test_without_amaranth_the_error_says_what_to_install() -> None:
    code = (
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'amaranth' else real(name, *a)\n"
        "import watersmeet.hardware"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "the hardware must have amaranth; got none; do: pip install 'watersmeet[hardware]'" in run.stderr
