"""Topologies as JSON: plain data with a version. What is unknown, missing or of another type is refused, with its place.

``{"version": 1, "name": ..., "components": [{"kind": "op_block", "name": "b1", "window": 512}, ...], "links": [{"from": "b1.r_out", "to":
"b2.r_in"}, ...], "holds": {}}``. Parameters that are left out have the component's defaults; what is written has them all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from watersmeet.errors import OptionError, listed
from watersmeet.fabric.components import COMPONENTS, Brick, Component, Unit
from watersmeet.fabric.topology import Link, Topology

VERSION = 1


def to_plain(topology: Topology) -> dict[str, Any]:
    """The topology as dicts, lists, texts and numbers."""
    return {
        "version": VERSION,
        "name": topology.name,
        "components": [_component_to_plain(component) for component in topology.components],
        "links": [{"from": link.source, "to": link.target} for link in topology.links],
        "holds": dict(topology.holds),
    }


def _component_to_plain(component: Component) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": component.kind}
    for field in fields(component):
        value = getattr(component, field.name)
        if field.name == "units":
            value = [{one.name: getattr(unit, one.name) for one in fields(unit)} for unit in value]
        found[field.name] = value
    return found


def from_plain(data: Any) -> Topology:
    """The topology that ``to_plain`` wrote down, or a text of it in JSON."""
    if isinstance(data, str | bytes):
        try:
            data = json.loads(data)
        except ValueError as error:
            raise OptionError(
                f"a fabric must be JSON; got a text that is not: {error}; give what to_json() returns"
            ) from None
    if isinstance(data, Mapping):
        data = {"holds": {}, **data}
    whole = _mapping("the fabric", data, ("version", "name", "components", "links", "holds"))
    if whole["version"] != VERSION or isinstance(whole["version"], bool):
        raise OptionError(
            f"version of the fabric must be {VERSION}; got {whole['version']!r}; write it down anew with this version of watersmeet"
        )
    if not isinstance(whole["name"], str):
        raise OptionError(f"name of the fabric must be a text; got {whole['name']!r}")
    components = tuple(
        _component(f"components[{k}]", one) for k, one in enumerate(_list("components", whole["components"]))
    )
    links = tuple(_link(f"links[{k}]", one) for k, one in enumerate(_list("links", whole["links"])))
    if not isinstance(whole["holds"], Mapping):
        raise OptionError(f"holds must be an object from stream to rows; got {whole['holds']!r}")
    return Topology(whole["name"], components, links, tuple(whole["holds"].items()))


def _component(place: str, data: Any) -> Component:
    if not isinstance(data, Mapping) or data.get("kind") not in COMPONENTS:
        given = data.get("kind") if isinstance(data, Mapping) else data
        raise OptionError(f"{place} must have a kind, one of {listed(list(COMPONENTS))}; got {given!r}")
    kind = COMPONENTS[data["kind"]]
    known = _fields(
        place, {name: value for name, value in data.items() if name != "kind"}, kind, data["kind"]
    )
    if kind is Brick:
        known["units"] = tuple(
            _unit(f"{place}.units[{k}]", one) for k, one in enumerate(_list(f"{place}.units", known["units"]))
        )
    return _made(place, kind, known)


def _unit(place: str, data: Any) -> Unit:
    if not isinstance(data, Mapping):
        raise OptionError(f"{place} must be an object with name and kind; got {data!r}")
    return _made(place, Unit, _fields(place, data, Unit, "unit"))


def _link(place: str, data: Any) -> Link:
    found = _mapping(place, data, ("from", "to"))
    for end in ("from", "to"):
        if not isinstance(found[end], str):
            raise OptionError(f"{place}.{end} must be a text such as 'b1.r_out'; got {found[end]!r}")
    return Link(found["from"], found["to"])


def _made(place: str, kind: type, known: Mapping[str, Any]) -> Any:
    try:
        return kind(**known)
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from None


def _fields(place: str, data: Mapping[str, Any], kind: type, called: str) -> dict[str, Any]:
    """The parameters of a component or unit; those with a default may be missing."""
    own: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    _refuse_unknown(place, data, tuple(own), called)
    needed = [name for name, field in own.items() if field.default is MISSING and name not in data]
    if kind is Brick and "units" not in data:
        needed.append("units")
    if needed:
        raise OptionError(
            f"{place} must have {listed(needed)}; got {listed(list(data)) or 'nothing'}; add it"
        )
    return dict(data)


def _mapping(place: str, data: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise OptionError(f"{place} must be an object with {listed(list(names))}; got {data!r}")
    _refuse_unknown(place, data, names, "")
    missing = [name for name in names if name not in data]
    if missing:
        raise OptionError(
            f"{place} must have {listed(missing)}; got {listed(list(data)) or 'nothing'}; add it"
        )
    return data


def _refuse_unknown(place: str, data: Mapping[str, Any], names: tuple[str, ...], called: str) -> None:
    unknown = [name for name in data if name not in names]
    if unknown:
        of = f" of kind {called!r}" if called else ""
        raise OptionError(
            f"{place}{of} must have no field but {listed(list(names))}; got {unknown[0]!r}; leave it out, or correct the name"
        )


def _list(place: str, data: Any) -> list[Any]:
    if not isinstance(data, list):
        raise OptionError(f"{place} must be a list; got {data!r}")
    return data
