"""A processor's state as plain data and tables, and back: rows, the order in which they came, queries, and what blocks remember.

Texts are saved, plans are not: a query is bound again, and its blocks are those of its plan and its starts. Rows are the state, so
indexes are made anew.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from watersmeet.api.state import schema_from_json, schema_to_json
from watersmeet.query.block import Block
from watersmeet.query.catalog import Entry, bound_entry, read_query
from watersmeet.query.feed import Feed
from watersmeet.query.graph import Start, remembering
from watersmeet.query.placed import Placing
from watersmeet.query.running import Running
from watersmeet.streams.history import Steps
from watersmeet.streams.window import window_from_json

Tables = Mapping[str, pa.Table]


def running_state(running: Running) -> tuple[dict[str, Any], dict[str, pa.Table]]:
    """The whole state, while no call is on its way."""
    feed = running.feed
    feed.shared.mend()
    tables = {f"rows {name}": feed.rows_of(name) for name in feed.known.schemas}
    steps = feed.history.steps()
    tables["history"] = pa.table({"stream": steps.streams, "rows": steps.rows, "push": steps.pushes})
    tables |= {f"history {k}": pa.table({"time": times}) for k, times in steps.latest.items()}
    for block in running.graph.blocks.values():
        tables |= {f"{_name(block)} {name}": table for name, table in block.snapshot().items()}
    header = {
        "windows": {name: window.to_json() for name, window in feed.windows.items()},
        "schemas": {name: schema_to_json(schema) for name, schema in feed.known.schemas.items()},
        "cores": feed.shared.pool.cores,
        "keeps_windows": feed.keeps_windows,
        "by_push": feed.by_push,
        "tables": list(feed.tables),
        "added": {name: list(columns) for name, columns in feed.added.items()},
        "arrived": {name: feed.arrived(name) for name in feed.names},
        "looks": feed.looks(),
        "counters": running.counters,
        "queries": [_entry_to_json(entry) for entry in running.entries.values()],
        "fabric": None if running.assigned is None else running.placing.to_json(running.assigned),
        "blocks": {_name(block): block.rows for block in running.graph.blocks.values()},
    }
    return header, tables


def restored(header: Mapping[str, Any], tables: Tables) -> Running:
    """What was saved, running."""
    windows = {name: window_from_json(window) for name, window in header["windows"].items()}
    feed = Feed(windows, {}, header["cores"], header["keeps_windows"], header["tables"], header["by_push"])
    feed.added = header["added"]
    schemas = {name: schema_from_json(schema) for name, schema in header["schemas"].items()}
    feed.learn({name: schema for name, schema in schemas.items() if schema is not None})
    for name in schemas:
        feed.restore_rows(name, tables[f"rows {name}"], header["arrived"][name])
    steps = tables["history"]
    latest = {k: tables[f"history {k}"] for k in range(len(windows)) if f"history {k}" in tables}
    feed.restore_history(
        Steps(
            steps.column("stream").to_numpy(),
            steps.column("rows").to_numpy(),
            steps.column("push").to_numpy(),
            {k: table.column("time").combine_chunks() for k, table in latest.items()},
        )
    )
    placing = Placing.from_json(
        header["fabric"], {name: tables[f"rows {name}"].num_rows for name in header["tables"]}
    )
    running = Running(feed, placing)
    running.counters = header["counters"]
    entries = [_entry_from_json(data, running) for data in header["queries"]]
    running.assigned = placing.as_saved(header["fabric"], entries)
    running.begin_again(entries)
    for block in running.graph.blocks.values():
        name = _name(block)
        mine = {
            key.removeprefix(f"{name} "): table for key, table in tables.items() if key.startswith(f"{name} ")
        }
        block.restore(mine)
        block.rows = header["blocks"][name]
    feed.restore_looks(header.get("looks", {}))  # states of earlier versions have none
    feed.let_go()
    return running


def _name(block: Block) -> str:
    """A short name of what makes a block what it is."""
    return hashlib.blake2b(repr(block.key).encode(), digest_size=12).hexdigest()


def _entry_to_json(entry: Entry) -> dict[str, Any]:
    starts = [] if entry.bound is None else [entry.starts[one] for one in remembering(entry.bound.plan)]
    return {
        "number": entry.number,
        "name": entry.name,
        "sql": entry.asked.sql,
        "windows": {name: window.to_json() for name, window in entry.asked.windows.items()},
        "emit": entry.asked.emit,
        "starts": [list(start) for start in starts],
        "since": dict(entry.since),
        "moment": entry.moment,
        "columns": {stream: list(names) for stream, names in entry.columns.items()},
        "generation": entry.generation,
        "warm": entry.warm,
        "stopped": entry.stopped,
    }


def _entry_from_json(data: Mapping[str, Any], running: Running) -> Entry:
    own = {name: window_from_json(window) for name, window in data["windows"].items()}
    asked = read_query(data["sql"], own, running.feed.names, data["emit"])
    entry = Entry(
        data["number"],
        data["name"],
        asked,
        since=data["since"],
        moment=data.get("moment"),
        columns=data["columns"],
        generation=data["generation"],
        warm=data["warm"],
    )
    if data["stopped"] is not None:
        return entry.because(data["stopped"])
    feed = running.feed
    bound = bound_entry(entry, feed.known.schemas, feed.windows, feed.tables, Start(0), {})
    if bound.bound is None:
        return bound
    stateful = remembering(bound.bound.plan)
    starts = {one: Start(*start) for one, start in zip(stateful, data["starts"], strict=True)}
    return replace(bound, starts=starts, looks_back=False)
