"""The loop around a cycle: offers the lines, takes what comes, stops when there is a reason to. One LLVM function, ``run``.

What stays true: it does what ``lines.py`` says, without a branch but the loop's own. Lines have one place more than they need, so
that reading or writing one too far is harmless: a transfer counts when the number beside it goes up.

The control block is words of 64 bits: ``HEAD`` first, then ``SOURCE`` for each input and ``SINK`` for each output, then ``WATCH``.
"""

from collections.abc import Callable

from watersmeet.hardware.simulate.compiled.ir import Value, Writer, constant, stored_bits
from watersmeet.hardware.simulate.compiled.machine import Machine

HEAD = ("cycle", "until", "idle", "last")
SOURCE = ("at", "n", "payloads", "offers", "taken")
SINK = ("count", "room", "payloads", "cycles", "stalls", "period", "phase")
SETTLED, FULL, USED_UP = 0, 1, 2  # what ``run`` gives
NEVER = (1 << 63) - 1


class Places:
    """Where each word of the control block lies."""

    def __init__(self, sources: list[str], sinks: list[str]) -> None:
        names = [*HEAD]
        names += [f"{port}.{word}" for port in sources for word in SOURCE]
        names += [f"{port}.{word}" for port in sinks for word in SINK]
        names.append("watch")
        self.index = {name: k for k, name in enumerate(names)}


def watch_words(widths: list[int]) -> list[int]:
    """Words of 64 bits that each watched signal takes in a row."""
    return [-(-width // 64) for width in widths]


def loop(
    machine: Machine, sources: list[str], sinks: list[str], watched: list[str], constants: dict[str, int]
) -> str:
    """The text of ``run(control, state)``."""
    w, places = Writer(), Places(sources, sinks)

    def place(name: str) -> str:
        return w.at("%C", places.index[name] * 8)

    def word(name: str) -> Value:
        return w.load(place(name), 64)

    def pointer(name: str) -> str:
        return w.new(f"load ptr, ptr {place(name)}", 64).name

    def element(name: str, at: Value, width: int) -> str:
        return w.at(pointer(name), w.two("mul", at, constant(stored_bits(width) // 8, 64)))

    w.line("br label %cycle")
    w.label("cycle")
    now = word("cycle")
    ports = machine.module["ports"]
    inputs = {
        name: constant(value, len(ports[name]["bits"])) for name, value in constants.items() if name in ports
    }
    ats, shows = {}, {}
    for name in sources:
        width = len(ports[f"{name}__payload"]["bits"])
        at = ats[name] = word(f"{name}.at")
        due = w.compare("sle", w.load(element(f"{name}.offers", at, 64), 64), now)
        shown = shows[name] = w.two("and", due, w.compare("slt", at, word(f"{name}.n")))
        inputs[f"{name}__valid"] = shown
        if width:
            payload = w.load(element(f"{name}.payloads", at, width), width)
            inputs[f"{name}__payload"] = w.select(shown, payload, constant(0, width))
    for name in sinks:
        phase = word(f"{name}.phase")
        stalled = w.load(element(f"{name}.stalls", phase, 8), 8)
        inputs[f"{name}__ready"] = w.compare("eq", stalled, constant(0, 8))
        later = w.two("add", phase, constant(1, 64))
        around = w.compare("eq", later, word(f"{name}.period"))
        w.store(w.select(around, constant(0, 64), later), place(f"{name}.phase"))
    outputs = machine.cycle(w, inputs)
    moved, left, full = constant(0, 1), constant(0, 1), constant(0, 1)
    for name in sources:
        moves = w.two("and", shows[name], outputs[f"{name}__ready"])
        w.store(now, element(f"{name}.taken", ats[name], 64))
        at = w.two("add", ats[name], w.resize(moves, 64))
        w.store(at, place(f"{name}.at"))
        moved = w.two("or", moved, moves)
        left = w.two("or", left, w.compare("slt", at, word(f"{name}.n")))
    for name in sinks:
        payload = outputs[f"{name}__payload"]
        moves = w.two("and", inputs[f"{name}__ready"], outputs[f"{name}__valid"])
        count = word(f"{name}.count")
        w.store(now, element(f"{name}.cycles", count, 64))
        w.store(payload, element(f"{name}.payloads", count, payload.width))
        count = w.two("add", count, w.resize(moves, 64))
        w.store(count, place(f"{name}.count"))
        moved = w.two("or", moved, moves)
        full = w.two("or", full, w.compare("eq", count, word(f"{name}.room")))
    if watched:
        _watch(w, outputs, watched, place)
    last = w.select(moved, now, word("last"))
    w.store(last, place("last"))
    following = w.two("add", now, constant(1, 64))
    w.store(following, place("cycle"))
    quiet = w.compare("sge", w.two("sub", now, last), word("idle"))
    settled = w.two("and", quiet, w.invert(left))
    used_up = w.compare("sge", following, word("until"))
    stop = w.two("or", w.two("or", settled, full), used_up)
    w.line(f"br i1 {stop.name}, label %end, label %cycle")
    w.label("end")
    why = w.select(full, constant(FULL, 64), constant(USED_UP, 64))
    why = w.select(settled, constant(SETTLED, 64), why)
    w.line(f"ret i64 {why.name}")
    text = "\n".join(w.lines)
    return f"{_declared(w)}define i64 @run(ptr noalias %C, ptr noalias %S) {{\n{text}\n}}\n"


def _declared(w: Writer) -> str:
    """Declarations of LLVM's own functions that the lines call."""
    found = {}
    for line in w.lines:
        if " = call " in line:
            kind, rest = line.split(" = call ", 1)[1].split(" @", 1)
            found[rest.split("(")[0]] = kind
    return "".join(f"declare {kind} @{name}({kind})\n" for name, kind in sorted(found.items()))


def _watch(w: Writer, outputs: dict[str, Value], watched: list[str], place: Callable[[str], str]) -> None:
    row = w.new(f"load ptr, ptr {place('watch')}", 64).name
    at = 0
    for name in watched:
        value = outputs[name]
        words = -(-value.width // 64)
        for k in range(words):
            piece = w.part(value, 64 * k, min(64, value.width - 64 * k))
            w.store(w.resize(piece, 64), w.at(row, at))
            at += 8
    w.line(f"store ptr {w.at(row, at)}, ptr {place('watch')}")
