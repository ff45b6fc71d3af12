"""The one contract of plain data between a processor and whoever looks at it: the page, the command line, tests.

A schema is JSON Schema (2020-12), of which ``check`` knows what is used here: ``type``, ``properties`` (all of them required, and no
others), ``additionalProperties`` (a map), ``items``, ``enum``, ``maxLength``, ``maxItems``, ``minimum``, ``maximum``, ``anyOf`` with null.
``PLAN`` is ``Processor.describe()``, ``STATS`` is ``Processor.stats()``; ``FABRIC`` is what ``Fabric.to_json`` writes, in outline:
``Fabric.from_json`` is what decides. ``MESSAGES`` is everything that the page may say to its server.
"""

from collections.abc import Mapping
from typing import Any

from watersmeet.errors import OptionError

VERSION = 1
Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
ANY: Schema = {}
NULL: Schema = {"type": "null"}


def thing(**properties: Schema) -> Schema:
    """An object with exactly these fields."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def by_name(values: Schema) -> Schema:
    """An object from any name to values."""
    return {"type": "object", "additionalProperties": values}


def some(items: Schema, most: int | None = None) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **({} if most is None else {"maxItems": most})}


def maybe(schema: Schema) -> Schema:
    """It, or null."""
    return {"anyOf": [schema, NULL]}


def one_of(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def text(most: int) -> Schema:
    return {"type": "string", "maxLength": most}


def whole(least: int, most: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most}


# ---- a processor ----------------------------------------------------------------------------------------------------

KINDS = (
    "scan", "join", "clock", "punctual", "filter", "project", "union", "groups", "windows", "open", "distinct", "keep", "top", "release",
)  # fmt: skip
STREAM = thing(name=TEXT, table=YES_NO, window=TEXT, rows=maybe(WHOLE), schema=maybe(by_name(TEXT)))
JOIN = thing(
    how=TEXT,
    condition=TEXT,
    bands=some(TEXT),
    sides=some(thing(name=TEXT, stream=TEXT, window=TEXT, rows=maybe(WHOLE))),
    drivers=some(TEXT),
    checks=some(TEXT),
    residual=maybe(TEXT),
    orders=by_name(some(TEXT)),
)
BLOCK = thing(
    id=TEXT,
    kind=one_of(*KINDS),
    instruction=TEXT,
    inputs=some(TEXT),
    streams=some(TEXT),
    queries=some(TEXT),
    together=maybe(thing(others=WHOLE, by=TEXT)),
    remembers=YES_NO,
    explain=TEXT,
    join=maybe(JOIN),
)
QUERY = thing(
    name=TEXT,
    number=WHOLE,
    generation=WHOLE,
    sql=TEXT,
    emit=maybe(TEXT),
    state=one_of("running", "waiting", "stopped"),
    reason=maybe(TEXT),
    root=maybe(TEXT),
    streams=some(TEXT),
    complete_from=maybe(by_name(WHOLE)),
    explain=TEXT,
)
COMPONENT: Schema = {
    "type": "object"
}  # its parameters are those of its kind: ``Fabric.from_json`` knows them
FABRIC = thing(
    version={"enum": [1]},
    name=text(200),
    components=some(COMPONENT, 4096),
    links=some(thing(**{"from": text(200), "to": text(200)}), 16384),
    holds=by_name(WHOLE),
)
PLACED = thing(operator=TEXT, kind=TEXT, queries=some(TEXT), slots=some(TEXT), flipped=YES_NO)
ASSIGNMENT = thing(
    fabric=TEXT,
    slots=WHOLE,
    hops=WHOLE,
    proven=YES_NO,
    moved=some(TEXT),
    operators=some(PLACED),
    streams=by_name(TEXT),
    attributes=some(TEXT),
    inputs=some(thing(stream=WHOLE, name=TEXT, entry=TEXT)),
    results=by_name(some(WHOLE)),
    instructions=some(ANY),
)
PLAN = thing(
    version={"enum": [VERSION]},
    ended=one_of("", "finished", "closed"),
    cores=WHOLE,
    watermark=one_of("row", "push"),
    streams=some(STREAM),
    blocks=some(BLOCK),
    queries=some(QUERY),
    fabric=maybe(thing(topology=FABRIC, assignment=ASSIGNMENT)),
)
STATS = thing(
    seconds=NUMBER,
    pushes=WHOLE,
    streams=by_name(
        thing(
            rows=WHOLE,
            arrived=WHOLE,
            joins=WHOLE,
            index_bytes=WHOLE,
            payload_bytes=WHOLE,
            bytes=WHOLE,
            late=WHOLE,
            newest=maybe(TEXT),
            watermark=maybe(TEXT),
        )
    ),
    blocks=by_name(
        thing(
            rows=WHOLE,
            seconds=NUMBER,
            held=WHOLE,
            bytes=WHOLE,
            late=by_name(WHOLE),
            watermark=maybe(TEXT),
            inside=some(thing(name=TEXT, rows=WHOLE, subwindows=WHOLE, indexes=some(TEXT), bytes=WHOLE)),
        )
    ),
    queries=by_name(thing(rows=WHOLE)),
)

# ---- a Spark query, from its files ----------------------------------------------------------------------------------

SPARK = thing(
    type=one_of("spark"),
    location=TEXT,
    operators=some(
        thing(
            kind=one_of("join", "host"),
            query=TEXT,
            name=TEXT,
            condition=maybe(TEXT),
            streams=some(TEXT),
            last=WHOLE,
            cores=some(
                thing(
                    core=WHOLE, batch=maybe(WHOLE), rows=WHOLE, bytes=WHOLE, late=WHOLE, watermark=maybe(TEXT)
                )
            ),
            batches=some(
                thing(
                    batch=WHOLE,
                    begun=maybe(NUMBER),
                    seconds=maybe(NUMBER),
                    arrived=by_name(WHOLE),
                    rows=WHOLE,
                    bytes=WHOLE,
                    late=WHOLE,
                    watermark=maybe(TEXT),
                    skew=maybe(NUMBER),
                )
            ),
        )
    ),
    queries=some(thing(name=TEXT, sql=TEXT, state=TEXT, reason=maybe(TEXT), spread=TEXT, generation=WHOLE)),
)

# ---- what the page may say ------------------------------------------------------------------------------------------

_ID, _SQL = whole(0, 2**53 - 1), text(100_000)
MESSAGES: Mapping[str, Schema] = {
    "execute": thing(do=TEXT, id=_ID, sql=_SQL),
    "look": thing(do=TEXT, id=_ID, query=maybe(text(1000)), block=maybe(text(40))),
    "check": thing(do=TEXT, id=_ID, fabric=FABRIC),
    "catalog": thing(do=TEXT, id=_ID),
    "example": thing(do=TEXT, id=_ID, name=text(100), parameters=by_name(WHOLE)),
    "assign": thing(do=TEXT, id=_ID, fabric=FABRIC, streams=text(100), sql=_SQL),
    "run": thing(
        do=TEXT, id=_ID, fabric=FABRIC, streams=text(100), sql=_SQL, how=one_of("software", "hardware")
    ),
    "pace": thing(do=TEXT, id=_ID, cycles=whole(0, 1_000_000)),
    "stop": thing(do=TEXT, id=_ID),
    "verilog": thing(do=TEXT, id=_ID, fabric=FABRIC, streams=text(100), sql=_SQL),
}


def check_message(data: Any) -> tuple[str, int]:
    """What a message asks for, and its number; what is not one of ``MESSAGES`` is refused."""
    verb = data.get("do") if isinstance(data, Mapping) else None
    if not isinstance(verb, str) or verb not in MESSAGES:
        raise OptionError(
            f"a message must be an object whose do is one of {', '.join(MESSAGES)}; got {verb!r}"
        )
    check(data, MESSAGES[verb], verb)
    return verb, data["id"]


# ---- checking -------------------------------------------------------------------------------------------------------

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (Mapping,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


def check(data: Any, schema: Schema, place: str = "it") -> None:
    """Refuse data that are not as the schema has them, with the place."""
    if "anyOf" in schema:
        if data is not None:
            check(data, schema["anyOf"][0], place)
        return
    kind = schema.get("type")
    if kind is not None and (
        not isinstance(data, _TYPES[kind]) or (isinstance(data, bool) and kind != "boolean")
    ):
        raise OptionError(f"{place} must be of type {kind}; got {_short(data)}")
    if "enum" in schema and data not in schema["enum"]:
        raise OptionError(
            f"{place} must be one of {', '.join(map(repr, schema['enum']))}; got {_short(data)}"
        )
    size = len(data) if isinstance(data, str | list) else data
    for bound, sign in (("maxLength", 1), ("maxItems", 1), ("maximum", 1), ("minimum", -1)):
        if bound in schema and sign * size > sign * schema[bound]:
            raise OptionError(f"{place} must keep {bound} {schema[bound]:,}; got {_short(data)}")
    if kind == "array" and "items" in schema:
        for k, item in enumerate(data):
            check(item, schema["items"], f"{place}[{k}]")
    if kind == "object":
        _check_fields(data, schema, place)


def _check_fields(data: Mapping[Any, Any], schema: Schema, place: str) -> None:
    known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
    for name in schema.get("required", ()):
        if name not in data:
            raise OptionError(f"{place} must have {name!r}; got {', '.join(map(str, data)) or 'nothing'}")
    for name, value in data.items():
        if not isinstance(name, str):
            raise OptionError(f"{place} must have texts as names; got {name!r}")
        if name in known:
            check(value, known[name], f"{place}.{name}")
        elif others is False:
            raise OptionError(f"{place} must have no field but {', '.join(known)}; got {name!r}")
        elif isinstance(others, Mapping):
            check(value, dict(others), f"{place}.{name}")


def _short(data: Any) -> str:
    shown = repr(data)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
