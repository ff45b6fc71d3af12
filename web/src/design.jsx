// The designer: a fabric on a canvas, put together by hand or from the catalogue; queries assigned to it, and tried.
// Every change is a fabric that the server has checked: what cannot be is refused there, with the reason.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, useView } from "./canvas.jsx";
import { Editor, Table } from "./editor.jsx";
import { count, rate, short } from "./format.js";
import { arrange, portsOf, sizeOf, wirePath } from "./parts.js";
import { Plot } from "./plot.jsx";
import { ask } from "./socket.js";

const EMPTY = { version: 1, name: "design", components: [], links: [], holds: {} };
const TONES = { entry: "a", exit: "b", op_block: "c", result_buffer: "c", gswitch_l: "f", gswitch_d: "f", brick: "d", decomposer: "e", composer: "e" };

function stored() {
  try {
    const found = JSON.parse(sessionStorage.getItem("wm-design"));
    return found?.fabric?.version === 1 ? { ...found, places: new Map(found.places) } : null;
  } catch {
    return null;
  }
}

export function Design({ link, run, setRun }) {
  const first = useMemo(stored, []);
  const [catalog, setCatalog] = useState(null);
  const [now, setNow] = useState({ fabric: first?.fabric ?? EMPTY, places: first?.places ?? new Map(), shape: { components: {}, block_ids: {} } });
  const [past, setPast] = useState([]);
  const [future, setFuture] = useState([]);
  const [chosen, setChosen] = useState(null); // { part } or { link }
  const [armed, setArmed] = useState(null); // the port that a wire begins at
  const [refusal, setRefusal] = useState(null);
  const [streams, setStreams] = useState(first?.streams ?? "tpch");
  const [sql, setSql] = useState(first?.sql ?? "");
  const [assigned, setAssigned] = useState(null);
  const plane = useView();
  const fitted = useRef(false);

  useEffect(() => {
    if (link !== "connected") return;
    (async () => {
      const answer = await ask("catalog");
      if (!answer.ok) return;
      setCatalog(answer);
      if (!sql) setSql(answer.streams.find((one) => one.name === streams)?.sql ?? "");
      if (now.fabric.components.length) {
        const checked = await ask("check", { fabric: now.fabric });
        if (checked.ok) setNow((was) => ({ ...was, shape: checked.shape }));
      } else if (!first) await example(answer.examples[0], {});
    })();
  }, [link]);

  useEffect(() => {
    if (now.fabric !== EMPTY) sessionStorage.setItem("wm-design", JSON.stringify({ fabric: now.fabric, places: [...now.places], streams, sql }));
  }, [now, streams, sql]);

  const parts = useMemo(() => now.fabric.components.map((part) => ({ part, ...sizeOf(part), at: now.places.get(part.name) ?? { x: 0, y: 0 }, ports: portsOf(part, now.shape.components[part.name]) })), [now]);
  const bounds = useMemo(() => {
    const ends = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
    for (const { at, w, h } of parts) Object.assign(ends, { left: Math.min(ends.left, at.x), top: Math.min(ends.top, at.y), right: Math.max(ends.right, at.x + w), bottom: Math.max(ends.bottom, at.y + h) });
    return parts.length ? { ...ends, top: ends.top - 46 } : { left: 0, top: 0, right: 800, bottom: 500 };
  }, [parts]);
  useEffect(() => {
    if (!fitted.current && parts.length && plane.box.current) {
      fitted.current = true;
      plane.fit(bounds, "user");
    }
  }, [parts]);

  // A change: checked, then taken; what stood before can be had again.
  async function change(fabric, places = now.places, quiet = false) {
    const answer = await ask("check", { fabric });
    if (!answer.ok) {
      setRefusal(answer.message);
      return false;
    }
    if (!quiet) {
      setPast([...past.slice(-199), now]);
      setFuture([]);
    }
    setNow({ fabric: answer.fabric, places, shape: answer.shape });
    setRefusal(null);
    setAssigned(null);
    return true;
  }
  function back(from, setFrom, to, setTo) {
    if (!from.length) return;
    setTo([...to, now]);
    setNow(from.at(-1));
    setFrom(from.slice(0, -1));
    setAssigned(null);
    setRefusal(null);
    setChosen(null);
  }
  const undo = () => back(past, setPast, future, setFuture);
  const redo = () => back(future, setFuture, past, setPast);

  async function example(one, parameters) {
    const answer = await ask("example", { name: one.name, parameters });
    if (!answer.ok) {
      setRefusal(answer.message);
      return;
    }
    fitted.current = false;
    setPast((was) => (now.fabric.components.length ? [...was, now] : was));
    setFuture([]);
    setNow({ fabric: answer.fabric, places: arrange(answer.fabric), shape: answer.shape });
    setStreams(one.streams);
    const known = (catalog ?? (await ask("catalog"))).streams.find((s) => s.name === one.streams);
    if (known) setSql(known.sql);
    setAssigned(null);
    setRefusal(null);
    setChosen(null);
  }

  function fresh(kind) {
    const base = { op_block: "block", gswitch_l: "g", gswitch_d: "d", result_buffer: "results" }[kind] ?? kind;
    const names = new Set(now.fabric.components.map((part) => part.name));
    for (let k = 1; ; k++) if (!names.has(`${base}${k}`)) return `${base}${k}`;
  }
  async function add(kind, at) {
    const template = catalog.components.find((one) => one.kind === kind).template;
    const part = { ...structuredClone(template), name: fresh(kind) };
    const { w, h } = sizeOf(part);
    const middle = plane.box.current.getBoundingClientRect();
    const spot = at ?? plane.toPlane(middle.left + middle.width / 2, middle.top + middle.height / 2);
    if (await change({ ...now.fabric, components: [...now.fabric.components, part] }, new Map(now.places).set(part.name, { x: spot.x - w / 2, y: spot.y - h / 2 }))) setChosen({ part: part.name });
  }
  async function wire(a, b) {
    setArmed(null);
    if (a.part === b.part && a.name === b.name) return;
    const [from, to] = a.way === "in" && b.way === "out" ? [b, a] : [a, b];
    await change({ ...now.fabric, links: [...now.fabric.links, { from: `${from.part}.${from.name}`, to: `${to.part}.${to.name}` }] });
  }
  async function remove() {
    if (chosen?.part) {
      const mine = (end) => end.split(".")[0] === chosen.part;
      await change({ ...now.fabric, components: now.fabric.components.filter((part) => part.name !== chosen.part), links: now.fabric.links.filter((one) => !mine(one.from) && !mine(one.to)) });
    } else if (chosen?.link) await change({ ...now.fabric, links: now.fabric.links.filter((one) => `${one.from}>${one.to}` !== chosen.link) });
    setChosen(null);
  }
  async function rename(part, name) {
    const moved = (end) => (end.split(".")[0] === part.name ? `${name}.${end.split(".")[1]}` : end);
    const places = new Map([...now.places].map(([key, at]) => [key === part.name ? name : key, at]));
    const fabric = { ...now.fabric, components: now.fabric.components.map((one) => (one === part ? { ...part, name } : one)), links: now.fabric.links.map((one) => ({ from: moved(one.from), to: moved(one.to) })) };
    if (await change(fabric, places)) setChosen({ part: name });
  }
  const replace = (part, next) => change({ ...now.fabric, components: now.fabric.components.map((one) => (one === part ? next : one)) });
  function move(name, at, quiet) {
    if (!quiet) {
      setPast([...past.slice(-199), now]);
      setFuture([]);
    }
    setNow((was) => ({ ...was, places: new Map(was.places).set(name, at) }));
  }

  function keys(event) {
    const typing = event.target.closest("input, select, textarea");
    if (typing) return false;
    const key = event.key.toLowerCase();
    if ((event.ctrlKey || event.metaKey) && key === "z") {
      event.preventDefault();
      if (event.shiftKey) redo();
      else undo();
    } else if ((event.ctrlKey || event.metaKey) && key === "y") {
      event.preventDefault();
      redo();
    } else if (event.key === "Escape") {
      setArmed(null);
      setChosen(null);
    } else if ((event.key === "Delete" || event.key === "Backspace") && chosen) {
      event.preventDefault();
      remove();
    } else if (chosen?.part && event.key.startsWith("Arrow")) {
      event.preventDefault();
      const at = now.places.get(chosen.part);
      const step = event.shiftKey ? 40 : 10;
      const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      move(chosen.part, { x: at.x + dx * step, y: at.y + dy * step }, false);
    } else return false;
    return true;
  }

  function save() {
    const text = JSON.stringify(now.fabric, null, 1);
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    anchor.download = `${now.fabric.name.replace(/[^\w-]+/g, "_") || "fabric"}.json`;
    anchor.click();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
  }
  async function open(event) {
    const [file] = event.currentTarget.files;
    event.currentTarget.value = "";
    if (!file) return;
    let data;
    try {
      data = JSON.parse(await file.text());
    } catch (error) {
      setRefusal(`a fabric must be JSON; got ${file.name}, which is not: ${error.message}`);
      return;
    }
    if (typeof data === "object" && data && !("holds" in data)) data.holds = {};
    const places = data?.components && Array.isArray(data.components) && Array.isArray(data.links) ? safely(() => arrange(data)) : new Map();
    if (await change(data, places)) {
      fitted.current = false;
      setNow((was) => ({ ...was }));
    }
  }

  const queries = assigned ? [...new Set(assigned.assignment.operators.flatMap((op) => op.queries))] : [];
  const notes = useMemo(() => {
    const found = new Map();
    for (const op of assigned?.assignment.operators ?? []) for (const slot of op.slots) found.set(slot, [...(found.get(slot) ?? []), op]);
    return found;
  }, [assigned]);
  const part = chosen?.part ? now.fabric.components.find((one) => one.name === chosen.part) : null;
  return (
    <div class="design" onKeyDown={(event) => keys(event)}>
      <nav class="palette" aria-label="components">
        <h2>Components</h2>
        {catalog?.components.map((one) => (
          <button key={one.kind} type="button" class="tool" draggable title={`${one.about}; drag it onto the canvas, or press Enter`} style={{ "--tone": `var(--${TONES[one.kind] ?? "f"})` }} data-testid={`tool-${one.kind}`}
            onDragStart={(event) => event.dataTransfer.setData("text/plain", `component:${one.kind}`)} onClick={() => add(one.kind)}>{one.title}</button>
        ))}
        <p class="quiet">Units (selection, join, synchroniser, bypass, …) are in a brick's form.</p>
      </nav>
      <Canvas
        plane={plane} bounds={bounds} label="the fabric" onBlank={() => { setChosen(null); setArmed(null); }} onKey={(event) => event.target === plane.box.current && keys(event)}
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          const kind = event.dataTransfer.getData("text/plain").replace(/^component:/, "");
          if (catalog?.components.some((one) => one.kind === kind)) add(kind, plane.toPlane(event.clientX, event.clientY));
        }}
      >
        <Wires links={now.fabric.links} parts={parts} chosen={chosen?.link} onChoose={(id) => setChosen({ link: id })} onRemove={remove} armed={armed} run={run} />
        {parts.map((one) => (
          <Part key={one.part.name} {...one} chosen={chosen?.part === one.part.name} armed={armed} ids={now.shape.block_ids} notes={notes} queries={queries} links={now.fabric.links} plane={plane}
            onChoose={() => setChosen({ part: one.part.name })} onMove={move} onArm={setArmed} onWire={wire} parts={parts} levels={run?.levels} />
        ))}
        {!parts.length && <p class="empty">Drag components here, or start from the catalogue.</p>}
      </Canvas>
      <aside class="panel" aria-label="the design">
        <Start catalog={catalog} onExample={example} />
        <div class="row">
          <button type="button" onClick={undo} disabled={!past.length} title="Ctrl+Z">Undo</button>
          <button type="button" onClick={redo} disabled={!future.length} title="Ctrl+Y">Redo</button>
          <button type="button" onClick={save} disabled={!parts.length}>Save</button>
          <label><span class="hidden">Open a fabric</span><input type="file" class="hidden" accept="application/json,.json" data-testid="open" onChange={open} /><span class="button" role="button" tabIndex={0} onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && event.currentTarget.parentElement.querySelector("input").click()}>Open</span></label>
          <button type="button" onClick={() => { setPast([...past, now]); setFuture([]); setNow({ ...now, places: arrange(now.fabric) }); fitted.current = false; }} disabled={!parts.length}>Arrange</button>
          <button type="button" onClick={() => change(EMPTY, new Map())} disabled={!parts.length}>Clear</button>
        </div>
        {refusal && <div class="refusal-box" role="alert" data-testid="refusal"><span>{refusal}</span><button type="button" aria-label="close" onClick={() => setRefusal(null)}>×</button></div>}
        {part && <Form key={part.name} part={part} catalog={catalog} onRename={rename} onReplace={replace} onRemove={remove} />}
        {chosen?.link && <section><h2>Wire</h2><p>{chosen.link.replace(">", " → ")}</p><div class="row"><button type="button" onClick={remove}>Remove</button></div></section>}
        <Trial {...{ catalog, streams, setStreams, sql, setSql, assigned, setAssigned, queries, run, setRun, fabric: now.fabric, setRefusal }} />
      </aside>
    </div>
  );
}

function safely(make) {
  try {
    return make();
  } catch {
    return new Map();
  }
}

function Start({ catalog, onExample }) {
  const [name, setName] = useState("");
  const [values, setValues] = useState({});
  const one = catalog?.examples.find((each) => each.name === name) ?? catalog?.examples[0];
  if (!one) return null;
  const given = Object.fromEntries(Object.entries(one.parameters).map(([key, [value]]) => [key, values[`${one.name}.${key}`] ?? value]));
  return (
    <section class="start">
      <label class="caption" for="example">Start from</label>
      <div class="row">
        <select id="example" value={one.name} onChange={(event) => setName(event.currentTarget.value)}>{catalog.examples.map((each) => <option value={each.name}>{each.title}</option>)}</select>
        <button type="button" onClick={() => onExample(one, given)}>Take it</button>
      </div>
      <div class="row">
        {Object.entries(one.parameters).map(([key, [, least, most]]) => (
          <label class="small">{key} <input type="number" min={least} max={most} value={given[key]} onInput={(event) => setValues({ ...values, [`${one.name}.${key}`]: event.currentTarget.valueAsNumber | 0 })} /></label>
        ))}
      </div>
    </section>
  );
}

// What the hardware shows of a block: levels of queues, groups, rows; the largest first.
const watchedOf = (levels, slot) => Object.entries(levels ?? {}).filter(([name, value]) => name.startsWith(`${slot.replace(".", "_")}_`) && value > 0).sort((a, b) => b[1] - a[1]).slice(0, 1);

const kindOf = (part) => ({ gswitch_l: "GSwitch-L", gswitch_d: `GSwitch-D ${part.fan_out}`, op_block: "", result_buffer: `buffer ${part.fan_in}` })[part.kind] ?? part.kind;

function Part({ part, w, h, columns, at, ports, chosen, armed, ids, notes, queries, links, plane, onChoose, onMove, onArm, onWire, parts, levels }) {
  const drag = useRef(null);
  const wired = (port) => links.some((one) => one[port.way === "out" ? "from" : "to"] === `${part.name}.${port.name}`);
  const tone = (slot) => (notes.has(slot) ? `used q${queries.indexOf(notes.get(slot)[0].queries[0]) % 6}` : "");
  const said = (slot) => notes.get(slot)?.map((op) => `${op.kind} (${op.queries.join(", ")})`).join("; ");
  const full = (slot) => notes.get(slot)?.map((op) => `${op.operator}, for ${op.queries.join(", ")}`).join("\n") ?? "";
  const pick = (port) => {
    const mine = { part: part.name, ...port };
    if (armed && armed.part + armed.name !== part.name + port.name) onWire(armed, mine);
    else onArm(armed ? null : mine);
  };
  return (
    <div
      class={`part ${chosen ? "chosen" : ""} ${part.kind === "op_block" ? tone(part.name) : ""}`} data-solid data-testid={`part-${part.name}`} tabIndex={0} role="group"
      aria-label={`${part.kind} ${part.name}${said(part.name) ? `: ${said(part.name)}` : ""}`} title={full(part.name)}
      style={{ transform: `translate(${at.x}px, ${at.y}px)`, width: `${w}px`, height: `${h}px` }}
      onFocus={(event) => event.target === event.currentTarget && onChoose()}
      onPointerDown={(event) => {
        if (event.button !== 0 || event.target.closest(".port")) return;
        onChoose();
        const point = plane.toPlane(event.clientX, event.clientY);
        drag.current = { dx: point.x - at.x, dy: point.y - at.y, moved: false };
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        if (!drag.current) return;
        const point = plane.toPlane(event.clientX, event.clientY);
        const to = { x: point.x - drag.current.dx, y: point.y - drag.current.dy };
        if (!drag.current.moved && Math.hypot(to.x - at.x, to.y - at.y) < 3) return;
        onMove(part.name, to, drag.current.moved);
        drag.current.moved = true;
      }}
      onPointerUp={() => { drag.current = null; }}
    >
      <header><b>{part.name}</b><span>{[part.kind === part.name ? "" : kindOf(part), ids[part.name]].filter(Boolean).join(" · ")}</span></header>
      {part.kind === "brick" ? <>
        <div class="bar">LSwitch</div>
        <div class="units" style={{ gridTemplateColumns: `repeat(${columns}, 1fr)` }}>
          {part.units.map((unit) => {
            const slot = `${part.name}.${unit.name}`;
            return <div key={unit.name} class={`unit ${tone(slot)}`} title={full(slot)} data-testid={`slot-${slot}`}><b>{unit.name}</b><i>{said(slot) ?? `${unit.kind}${unit.window ? ` ${short(unit.window)}` : ""}`}</i>{watchedOf(levels, slot).map(([name, value]) => <em title={name}>{value}</em>)}</div>;
          })}
        </div>
        <div class="bar">Collector</div>
      </> : part.kind === "op_block" ? <>
        <p>OP-Block, {short(part.window)} rows</p>
        <p data-testid={`slot-${part.name}`}><b>{said(part.name) ?? ""}</b></p>
      </> : null}
      {ports.map((port) => (
        <button
          key={port.way + port.name} type="button" class={`port sort-${port.sort} ${wired(port) ? "wired" : ""} ${armed?.part === part.name && armed.name === port.name ? "armed" : ""}`} data-name={port.name} data-testid={`port-${part.name}.${port.name}`}
          style={{ left: `${port.x}px`, top: `${port.y}px` }} aria-label={`way ${port.way} ${port.name} of ${part.name}, ${port.sort}${wired(port) ? ", wired" : ""}`} aria-pressed={armed?.part === part.name && armed.name === port.name}
          onClick={(event) => { if (event.detail === 0) pick(port); }}
          onPointerDown={(event) => {
            event.stopPropagation();
            if (event.button !== 0) return;
            const from = { part: part.name, ...port };
            const began = { x: event.clientX, y: event.clientY };
            if (armed) { pick(port); return; }
            onArm(from);
            const follow = (move) => onArm({ ...from, to: plane.toPlane(move.clientX, move.clientY) });
            const end = (up) => {
              removeEventListener("pointermove", follow);
              removeEventListener("pointerup", end);
              const over = document.elementFromPoint(up.clientX, up.clientY)?.closest(".port");
              const id = over?.dataset.testid?.replace("port-", "");
              if (Math.hypot(up.clientX - began.x, up.clientY - began.y) < 5) { onArm(from); return; }
              const name = id?.split(".")[0];
              const other = name && parts.find((one) => one.part.name === name)?.ports.find((one) => `${name}.${one.name}` === id);
              if (other) onWire(from, { part: name, ...other });
              else onArm(null);
            };
            addEventListener("pointermove", follow);
            addEventListener("pointerup", end);
          }}
        />
      ))}
    </div>
  );
}

function Wires({ links, parts, chosen, onChoose, armed, run }) {
  const running = run?.state === "running" && run.how === "software";
  const ends = new Map(parts.flatMap((one) => one.ports.map((port) => [`${one.part.name}.${port.name}`, { x: one.at.x + port.x, y: one.at.y + port.y, side: port.side, sort: port.sort }])));
  const begin = armed && ends.get(`${armed.part}.${armed.name}`);
  return (
    <svg class="wires" data-solid>
      {links.map((link) => {
        const [a, b] = [ends.get(link.from), ends.get(link.to)];
        if (!a || !b) return null;
        const id = `${link.from}>${link.to}`;
        const path = wirePath(a, b);
        return (
          <g key={id} class={`sort-${a.sort} ${chosen === id ? "chosen" : ""}`} data-testid={`wire-${id}`}>
            <path class="wire" d={path} />
            {run?.how === "hardware" && run.lately[id] > 0 && <path class="token" key={run.cycle} d={path} pathLength="1" />}
            {run?.how === "hardware" && run.moved[id] > 0 && <text class="moved" x={(a.x + b.x) / 2 + 9} y={(a.y + b.y) / 2 + 3}>{count(run.moved[id])}</text>}
            {running && <path class="stream-flow" d={path} style={{ strokeWidth: 2 }} />}
            <path class="grip" d={path} tabIndex={0} role="button" aria-label={`wire from ${link.from} to ${link.to}`} onClick={() => onChoose(id)} onFocus={() => onChoose(id)} />
          </g>
        );
      })}
      {begin && armed.to && <path class={`new wire sort-${armed.sort}`} d={`M${begin.x} ${begin.y}L${armed.to.x} ${armed.to.y}`} />}
    </svg>
  );
}

function Form({ part, catalog, onRename, onReplace, onRemove }) {
  const fields = catalog?.components.find((one) => one.kind === part.kind)?.fields ?? [];
  const number = (value) => (Number.isFinite(value) ? Math.trunc(value) : 0);
  return (
    <section aria-label={`form of ${part.name}`}>
      <h2>{catalog?.components.find((one) => one.kind === part.kind)?.title} <span class="quiet">{catalog?.components.find((one) => one.kind === part.kind)?.about}</span></h2>
      <div class="form">
        <label for="part-name">name</label>
        <Typed id="part-name" type="text" value={part.name} onCommit={(name) => onRename(part, name)} />
        {fields.map((field) => <Field key={field.name} field={field} value={part[field.name]} id={`part-${field.name}`} onChange={(value) => onReplace(part, { ...part, [field.name]: value })} number={number} />)}
      </div>
      {part.kind === "brick" && <>
        {part.units.map((unit, k) => (
          <fieldset key={k}>
            <legend>{unit.name}</legend>
            <div class="form">
              <label>kind</label>
              <div class="row">
                <select aria-label={`kind of ${unit.name}`} value={unit.kind} onChange={(event) => onReplace(part, { ...part, units: part.units.with(k, { ...unit, kind: event.currentTarget.value }) })}>{catalog.units.map((one) => <option value={one.kind}>{one.kind}</option>)}</select>
                <button type="button" onClick={() => onReplace(part, { ...part, units: part.units.toSpliced(k, 1) })} aria-label={`remove ${unit.name}`}>Remove</button>
              </div>
              <label>name</label><Typed type="text" aria-label={`name of ${unit.name}`} value={unit.name} onCommit={(name) => onReplace(part, { ...part, units: part.units.with(k, { ...unit, name }) })} />
              {unit.kind !== "bypass" && catalog.unit_fields.map((field) => <Field key={field.name} field={field} value={unit[field.name]} id={`unit-${k}-${field.name}`} onChange={(value) => onReplace(part, { ...part, units: part.units.with(k, { ...unit, [field.name]: value }) })} number={number} />)}
            </div>
          </fieldset>
        ))}
        <div class="row"><button type="button" onClick={() => onReplace(part, { ...part, units: [...part.units, { ...Object.fromEntries(catalog.unit_fields.map((field) => [field.name, field.default])), name: freshUnit(part), kind: "selection" }] })}>Add unit</button></div>
      </>}
      <div class="row"><button type="button" onClick={onRemove}>Remove {part.name}</button></div>
    </section>
  );
}

function freshUnit(part) {
  for (let k = 1; ; k++) if (!part.units.some((unit) => unit.name === `unit${k}`)) return `unit${k}`;
}

// A text or number that counts once it is left, or by Enter; until then nothing that happens elsewhere changes what is typed.
function Typed({ value, onCommit, ...rest }) {
  const [draft, setDraft] = useState(null);
  const commit = (event) => {
    const typed = event.currentTarget.type === "number" ? event.currentTarget.valueAsNumber : event.currentTarget.value;
    setDraft(null);
    if (typed !== value) onCommit(typed);
  };
  return <input {...rest} value={draft ?? value} onInput={(event) => setDraft(event.currentTarget.value)} onChange={commit} />;
}

function Field({ field, value, id, onChange, number }) {
  return <>
    <label for={id}>{field.name}</label>
    {field.type === "yes_no" ? <input id={id} type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />
      : <Typed id={id} type="number" value={value} onCommit={(typed) => onChange(number(typed))} />}
  </>;
}

function Trial({ catalog, streams, setStreams, sql, setSql, assigned, setAssigned, queries, run, setRun, fabric, setRefusal }) {
  const [said, setSaid] = useState(null);
  const [pace, setPace] = useState(5);
  const [points, setPoints] = useState([]);
  const known = catalog?.streams.find((one) => one.name === streams);
  const going = run?.state === "running";
  useEffect(() => {
    if (run?.how === "software") setPoints((was) => (was.length && was.at(-1)[0] > run.seconds ? [] : was).concat([[run.seconds, run.busy ? run.rows / run.busy : 0]]).slice(-300));
  }, [run]);
  const asked = { fabric, streams, sql };
  const wrong = (answer) => setSaid({ text: answer.message, span: answer.span });
  const assign = async () => {
    const answer = await ask("assign", asked);
    if (answer.ok) {
      setAssigned(answer);
      setSaid(null);
    } else {
      setAssigned(null);
      wrong(answer);
    }
    return answer.ok;
  };
  const start = async (how) => {
    if (!(await assign())) return;
    setPoints([]);
    setRun(null);
    setSaid(how === "hardware" ? { text: "The hardware is being made …", fine: true } : null);
    const answer = await ask("run", { ...asked, how });
    setSaid(null);
    if (!answer.ok) wrong(answer);
    else if (how === "hardware") ask("pace", { cycles: cyclesOf(pace) });
  };
  const stop = async () => {
    const answer = await ask("stop");
    if (answer.run) setRun(answer.run);
  };
  const verilog = async () => {
    const answer = await ask("verilog", asked);
    if (!answer.ok) return wrong(answer);
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(new Blob([answer.verilog], { type: "text/plain" }));
    anchor.download = `${fabric.name.replace(/[^\w-]+/g, "_")}.v`;
    anchor.click();
  };
  const tone = (name) => `q${queries.indexOf(name) % 6}`;
  return (
    <section class="trial">
      <label class="caption" for="streams">Queries on it</label>
      <select id="streams" value={streams} onChange={(event) => {
        const next = catalog.streams.find((one) => one.name === event.currentTarget.value);
        setStreams(next.name);
        setSql(next.sql);
        setAssigned(null);
      }}>{catalog?.streams.map((one) => <option value={one.name}>{one.title}</option>)}</select>
      {known && <p class="quiet small">{Object.entries(known.streams).map(([name, one]) => `${name} (${Object.keys(one.schema).join(", ")}), ${one.window}`).join("; ")}</p>}
      <Editor label="statements for the design" id="design-sql" value={sql} onInput={(text) => { setSql(text); setSaid(null); }} onRun={assign} span={said?.span} rows={9} />
      <div class="row">
        <button type="button" class="main" onClick={assign} disabled={!fabric.components.length}>Assign</button>
        <button type="button" onClick={() => start("software")} disabled={!fabric.components.length}>Run in software</button>
        <button type="button" onClick={() => start("hardware")} disabled={!fabric.components.length}>Cycle by cycle</button>
        <button type="button" onClick={stop} disabled={!going}>Stop</button>
        <button type="button" onClick={verilog} disabled={!fabric.components.length}>Verilog</button>
      </div>
      <p class={`said ${said?.fine ? "quiet" : "wrong"}`} role="status" data-testid="design-said">{said?.text ?? ""}</p>
      {run && <Running run={run} points={points} pace={pace} setPace={(value) => { setPace(value); ask("pace", { cycles: cyclesOf(value) }); }} />}
      {assigned && <div data-testid="assignment">
        <p>{queries.map((name) => <span class={`key ${tone(name)}`}>{name} </span>)} <span class="quiet">{assigned.assignment.slots} blocks in use, {assigned.assignment.hops} hops, {assigned.assignment.instructions.length} instructions in {assigned.words.length} words{assigned.assignment.proven ? "" : "; a better assignment may exist"}</span></p>
        <div class="instructions" tabIndex={0} role="region" aria-label="instructions">
          <table>
            <thead><tr><th>B-ID</th><th>block</th><th>instruction</th><th>stream</th><th>out</th></tr></thead>
            <tbody>{assigned.assignment.instructions.map((one) => <tr><td>{one.b_id}</td><td>{one.block}</td><td>{one.inst}</td><td>{one.stream}{one.lane}</td><td>{one.out || ""}</td></tr>)}</tbody>
          </table>
        </div>
        <details><summary>all fields</summary><pre class="instructions">{assigned.table}</pre></details>
      </div>}
    </section>
  );
}

// The slider's places: time stands still, then 1, 2, 5, 10, ... cycles a second.
const cyclesOf = (place) => (place === 0 ? 0 : [1, 2, 5][(place - 1) % 3] * 10 ** Math.floor((place - 1) / 3));

function Running({ run, points, pace, setPace }) {
  return (
    <div data-testid="run">
      <p><b>{run.how === "software" ? "In software" : "Cycle by cycle"}</b> <span class={run.state === "failed" ? "wrong" : "quiet"}>{run.error ?? run.state}</span></p>
      <div class="counts">
        {run.cycle != null && <div>cycles<b data-testid="run-cycles">{count(run.cycle)}</b></div>}
        {run.words && <div>words in<b>{count(run.words[0])} of {count(run.words[1])}</b></div>}
        {run.how === "software" && <div>rows in<b data-testid="run-rows">{short(run.rows)}</b></div>}
        {run.how === "software" && <div>while busy<b>{rate(run.busy ? run.rows / run.busy : null)}</b></div>}
        {Object.entries(run.results).map(([name, n]) => <div>{name}<b data-testid={`run-${name}`}>{short(n)}</b></div>)}
      </div>
      {run.agrees != null && <p class={run.agrees ? "fine" : "wrong"} data-testid="agrees">{run.agrees ? "The results are those of the engine." : "The results are NOT those of the engine."}</p>}
      {run.how === "hardware" && <p class="quiet small">Amaranth's simulator, {count(run.programming)} words of instructions, then 32 rows of each stream.</p>}
      {run.how === "hardware" && <label class="small">speed: {pace === 0 ? "stands still" : `${count(cyclesOf(pace))} cycles a second`}<input type="range" min="0" max="16" value={pace} onInput={(event) => setPace(event.currentTarget.valueAsNumber)} aria-label="cycles a second" /></label>}
      {run.how === "software" && points.length > 2 && <Plot label="rows a second while busy" span={0} across={(x) => `${x.toFixed(0)} s`} series={[{ name: "rows", tone: "tone-a", points }]} height={96} />}
      {Object.entries(run.last ?? {}).map(([name, data]) => <details open><summary>last results of {name}</summary><Table data={data} most={10} /></details>)}
    </div>
  );
}
