// A processor at work: its plan as a graph with rates, and whatever is clicked in words, numbers and rows.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Canvas, useView } from "./canvas.jsx";
import { Editor, Table } from "./editor.jsx";
import { bytes, count, percent, rate, short, time } from "./format.js";
import { useGlide } from "./glide.js";
import { best, bounds as boundsOf } from "./layout.js";
import { Picture } from "./picture.jsx";
import { Plot } from "./plot.jsx";
import { ask } from "./socket.js";

const W = 178;
const NEW = "CREATE QUERY cheap AS\nSELECT sym, price, size\nFROM trades WHERE price < 50 AND size > 5000";

// The plan as nodes and edges. A scan is its stream's node: it does nothing else.
function graphOf(plan) {
  const scans = new Map(plan.blocks.filter((block) => block.kind === "scan").map((block) => [block.id, `s:${block.streams[0]}`]));
  const place = (id) => scans.get(id) ?? `b:${id}`;
  const nodes = plan.streams.map((stream) => ({ id: `s:${stream.name}`, kind: "stream", w: W, h: 76, stream }));
  const edges = [];
  for (const block of plan.blocks) {
    if (scans.has(block.id)) continue;
    nodes.push({ id: `b:${block.id}`, kind: block.kind, w: W, h: block.remembers ? 78 : 58, block });
    for (const below of block.inputs) edges.push({ from: place(below), to: `b:${block.id}`, of: below });
    for (const stream of block.streams) edges.push({ from: `s:${stream}`, to: `b:${block.id}`, stream });
  }
  for (const query of plan.queries) {
    nodes.push({ id: `q:${query.name}`, kind: "query", w: 168, h: 58, last: true, query });
    if (query.root) edges.push({ from: place(query.root), to: `q:${query.name}`, of: query.root });
    else for (const stream of query.streams) edges.push({ from: `s:${stream}`, to: `q:${query.name}`, waits: true });
  }
  return { nodes, edges };
}

const titles = { groups: "aggregate", windows: "windows", open: "open windows", punctual: "punctual", top: "answer", release: "order" };

function brief(block) {
  const text = block.instruction.split("\n")[0];
  if (block.join) return block.join.condition;
  if (block.kind === "project") return text.replace(/^project /, "").replace(/\b\w+\.(\w+) AS \1\b/g, "$1");
  if (block.kind === "clock") return text.replace(/^clock of /, "");
  return text.replace(/^(filter|aggregate) /, "");
}

const readBlock = (id) => (stats) => stats.blocks[id]?.rows;
const readBusy = (id) => (stats) => stats.blocks[id]?.seconds;
const readStream = (name) => (stats) => stats.streams[name]?.arrived;
const readQuery = (name) => (stats) => stats.queries[name]?.rows;

export function Live({ plan, history, results, pictures, writable, look, setLook }) {
  const plane = useView();
  const before = useRef({ places: new Map(), down: null });
  const graph = useMemo(() => graphOf(plan), [plan]);
  const layout = useMemo(() => {
    const { clientWidth: width = 900, clientHeight: height = 760 } = plane.box.current ?? {};
    const found = best(graph.nodes, graph.edges, { width, height, before: before.current.places, down: before.current.down });
    before.current = found;
    return found;
  }, [graph]);
  const targets = layout.places;
  const places = useGlide(targets);
  const bounds = useMemo(() => boundsOf(graph.nodes, targets), [graph, targets]);
  useEffect(() => {
    plane.fit(bounds);
    const again = () => plane.fit(bounds);
    const watch = new ResizeObserver(again);
    watch.observe(plane.box.current);
    return () => watch.disconnect();
  }, [bounds]);
  const known = graph.nodes.find((node) => node.id === look);
  useEffect(() => {
    const query = known?.query?.name ?? null;
    const block = known?.block?.join ? known.block.id : null;
    ask("look", { query, block });
  }, [known?.query?.name, known?.block?.id, plan]);
  const stats = history.last?.stats;
  return (
    <div class="live">
      <Canvas plane={plane} bounds={bounds} label="the plan" onBlank={() => setLook(null)}>
        <Edges graph={graph} layout={layout} places={places} history={history} look={look} />
        {graph.nodes.map((node) => {
          const at = places.get(node.id);
          return at && <Node key={node.id} node={node} at={at} stats={stats} history={history} chosen={node.id === look} related={related(graph, look, node.id)} onClick={() => setLook(node.id === look ? null : node.id)} />;
        })}
      </Canvas>
      <aside class="panel" aria-label="details">
        <Statements plan={plan} writable={writable} look={look} setLook={setLook} history={history} />
        {known && <section class="detail" aria-label={`details of ${known.id.slice(2)}`} data-testid="detail">
          {known.stream && <Stream stream={known.stream} history={history} />}
          {known.block && <Block block={known.block} history={history} picture={pictures[known.block.id]} />}
          {known.query && <Query query={known.query} history={history} rows={results[known.query.name]} />}
        </section>}
        {!known && <p class="quiet hint">Click a stream, a block or a query to look into it.</p>}
      </aside>
    </div>
  );
}

// Whether a node lies on a way to or from the one that is looked at.
function related(graph, look, id) {
  if (!look) return true;
  const reach = (start, from, to) => {
    const found = new Set([start]);
    const left = [start];
    while (left.length) {
      const now = left.pop();
      for (const edge of graph.edges) if (edge[from] === now && !found.has(edge[to])) found.add(edge[to]) && left.push(edge[to]);
    }
    return found;
  };
  graph.reached ??= new Map();
  if (!graph.reached.has(look)) graph.reached.set(look, new Set([...reach(look, "from", "to"), ...reach(look, "to", "from")]));
  return graph.reached.get(look).has(id);
}

function Edges({ graph, layout, places, history, look }) {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]));
  const still = graph.edges.length > 150;
  const side = layout.down ? "x" : "y";
  const ends = sidesOf(graph, layout, side);
  return (
    <svg class="edges" aria-hidden="true">
      {graph.edges.map((edge) => {
        const [a, b] = [places.get(edge.from), places.get(edge.to)];
        const [from, to] = [byId.get(edge.from), byId.get(edge.to)];
        if (!a || !b || !from || !to) return null;
        const bends = (layout.routes.get(edge) ?? []).map((id) => places.get(id)).filter(Boolean).map((at) => ({ x: at.x + 7, y: at.y + 7 }));
        const [leaves, comes] = [ends.get(edge).leaves, ends.get(edge).comes];
        const points = layout.down
          ? [{ x: a.x + from.w * leaves, y: a.y + from.h }, ...bends, { x: b.x + to.w * comes, y: b.y }]
          : [{ x: a.x + from.w, y: a.y + from.h * leaves }, ...bends, { x: b.x, y: b.y + to.h * comes }];
        const flow = edge.waits ? null : history.rate(edge.stream ? readStream(edge.stream) : readBlock(edge.of));
        const thick = flow > 0 ? Math.min(6, 1.2 + Math.log10(1 + flow) * 0.75) : 1.2;
        const dim = !(related(graph, look, edge.from) && related(graph, look, edge.to));
        const path = curve(points, layout.down);
        const [p, q] = points.slice(-2);
        return (
          <g key={`${edge.from}>${edge.to}>${edge.of ?? ""}`} class={`edge ${dim ? "dim" : ""} ${edge.waits ? "waits" : ""}`}>
            <path class="bed" d={path} style={{ strokeWidth: thick + 1.5 }} />
            {flow > 0 && !still && <path class={`stream-flow ${flow > 5000 ? "fast" : flow > 200 ? "" : "slow"}`} d={path} style={{ strokeWidth: Math.max(1.4, thick * 0.6) }} />}
            {flow != null && (layout.down
              ? <text x={q.x + 8} y={q.y - 9}>{rate(flow)}</text>
              : <text x={(p.x + q.x) / 2} y={(p.y + q.y) / 2 - 6 - thick / 2} text-anchor="middle">{rate(flow)}</text>)}
          </g>
        );
      })}
    </svg>
  );
}

// Where along a side each edge leaves and comes: several stand beside one another, in the order of where they lead.
function sidesOf(graph, layout, side) {
  const found = new Map(graph.edges.map((edge) => [edge, { leaves: 0.5, comes: 0.5 }]));
  const where = (edge, end) => {
    const through = layout.routes.get(edge) ?? [];
    const id = end === "comes" ? through.at(-1) ?? edge.from : through[0] ?? edge.to;
    return layout.places.get(id)?.[side] ?? 0;
  };
  for (const [end, key] of [["leaves", "from"], ["comes", "to"]]) {
    const groups = Map.groupBy ? Map.groupBy(graph.edges, (edge) => edge[key]) : graph.edges.reduce((all, edge) => all.set(edge[key], [...(all.get(edge[key]) ?? []), edge]), new Map());
    for (const several of groups.values()) {
      if (several.length < 2) continue;
      const sorted = [...several].sort((a, b) => where(a, end) - where(b, end));
      sorted.forEach((edge, k) => { found.get(edge)[end] = 0.5 + (k / (sorted.length - 1) - 0.5) * Math.min(0.64, 0.3 * (sorted.length - 1)); });
    }
  }
  return found;
}

function curve(points, down) {
  let path = `M${points[0].x} ${points[0].y}`;
  for (let k = 1; k < points.length; k++) {
    const [p, q] = [points[k - 1], points[k]];
    const bend = down ? Math.max(14, (q.y - p.y) / 2) : Math.max(20, (q.x - p.x) / 2);
    path += down ? `C${p.x} ${p.y + bend} ${q.x} ${q.y - bend} ${q.x} ${q.y}` : `C${p.x + bend} ${p.y} ${q.x - bend} ${q.y} ${q.x} ${q.y}`;
  }
  return path;
}

function Node({ node, at, stats, history, chosen, related: near, onClick }) {
  const { stream, block, query } = node;
  const name = stream?.name ?? query?.name ?? (titles[block.kind] || block.kind);
  const numbers = stream ? stats?.streams[stream.name] : block ? stats?.blocks[block.id] : null;
  const busy = block && history.rate(readBusy(block.id));
  const fill = stream && numbers ? numbers.rows / (stream.rows || history.most.get(stream.name) || 1) : null;
  const state = query?.state;
  return (
    <button
      type="button" data-solid data-testid={`node-${node.id}`} class={`node kind-${node.kind} ${chosen ? "chosen" : ""} ${near ? "" : "dim"} ${state ?? ""}`}
      style={{ transform: `translate(${at.x}px, ${at.y}px)`, width: `${node.w}px`, height: `${node.h}px` }} aria-pressed={chosen} onClick={onClick}
      title={block ? block.instruction : query ? query.sql : stream.window}
    >
      <span class="node-head">
        <b>{name}</b>
        {block?.queries.length > 1 && <em title={`for ${block.queries.join(", ")}`}>for {block.queries.length}</em>}
        {block?.together && <em title={`evaluated together by ${block.together.by}`}>with {block.together.others}</em>}
        {query && <em>{state === "running" ? rate(history.rate(readQuery(query.name))) : state}</em>}
        {stream && !stream.table && <em>{rate(history.rate(readStream(stream.name)))}</em>}
        {stream?.table && <em>table</em>}
      </span>
      {block && <span class="node-text">{brief(block)}</span>}
      {query && <span class="node-text">{query.reason ?? `${count(stats?.queries[query.name]?.rows)} rows so far`}</span>}
      {stream && <span class="node-text">{numbers ? `${short(numbers.rows)} held · ${bytes(numbers.bytes)}${numbers.late ? ` · ${count(numbers.late)} late` : ""}` : stream.window}</span>}
      {stream && <span class="node-text quiet">{numbers?.watermark ? `watermark ${time(numbers.watermark).slice(11, 23)}` : stream.window}</span>}
      {stream && fill != null && <meter class="fill" min="0" max="1" value={fill} title={stream.rows ? "how full its window is" : "rows held, of the most so far"}>{percent(fill)}</meter>}
      {block?.remembers && numbers?.held > 0 && <span class="node-text quiet">{short(numbers.held)} held · {bytes(numbers.bytes)}</span>}
      {block && <meter class="busy" min="0" max="1" value={Math.min(1, busy ?? 0)} title={`busy ${percent(busy)} of the time`}>{percent(busy)}</meter>}
    </button>
  );
}

function Statements({ plan, writable, look, setLook, history }) {
  const [sql, setSql] = useState(() => sessionStorage.getItem("wm-sql") ?? NEW);
  const [said, setSaid] = useState(null);
  const write = (text) => {
    setSql(text);
    sessionStorage.setItem("wm-sql", text);
    setSaid(null);
  };
  const run = async (text = sql) => {
    const answer = await ask("execute", { sql: text });
    setSaid(answer.ok ? { ok: true, text: Object.entries(answer.queries).map(([name, one]) => `${name}: ${one.state}${one.reason ? `, for ${one.reason}` : ""}`).join("; ") || "done" } : { text: answer.message, span: text === sql ? answer.span : null });
  };
  useEffect(() => {
    const edit = (event) => {
      write(event.detail);
      document.getElementById("statements")?.focus();
    };
    const drop = (event) => run(`DROP QUERY ${quoted(event.detail)}`);
    window.addEventListener("wm-edit", edit);
    window.addEventListener("wm-drop", drop);
    return () => {
      window.removeEventListener("wm-edit", edit);
      window.removeEventListener("wm-drop", drop);
    };
  });
  return (
    <section class="statements">
      {writable && !plan.ended ? <>
        <label class="caption" for="statements">Statements <span class="quiet">Ctrl+Enter runs them</span></label>
        <Editor id="statements" label="SQL statements" value={sql} onInput={write} onRun={() => run()} span={said?.span} rows={6} />
        <div class="row">
          <button type="button" class="main" onClick={() => run()}>Run</button>
          <button type="button" onClick={() => write(NEW)}>New query</button>
        </div>
      </> : <p class="quiet">{plan.ended ? "The streams have ended: queries can be looked at, and not changed." : "Queries can be looked at, and not changed."}</p>}
      <p class={`said ${said?.ok ? "fine" : "wrong"}`} role="status" data-testid="said">{said?.text ?? ""}</p>
      <ul class="queries" aria-label="queries">
        {plan.queries.map((query) => (
          <li key={query.name}>
            <button type="button" class={`${look === `q:${query.name}` ? "chosen" : ""} ${query.state}`} onClick={() => setLook(`q:${query.name}`)}>
              {query.name} <span class="quiet">{query.state === "running" ? rate(history.rate(readQuery(query.name))) : query.state}</span>
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}

const quoted = (name) => (/^[A-Za-z_]\w*$/.test(name) ? name : `\`${name}\``);

function Facts({ items }) {
  return <dl class="facts">{items.filter(Boolean).map(([name, value]) => <><dt>{name}</dt><dd>{value}</dd></>)}</dl>;
}

function Stream({ stream, history }) {
  const numbers = history.last?.stats.streams[stream.name];
  return <>
    <h2>{stream.table ? "Table" : "Stream"} {stream.name}</h2>
    {numbers && <Facts items={[
      ["window", stream.window], ["arrived", count(numbers.arrived)], ["held", `${count(numbers.rows)} rows, ${bytes(numbers.payload_bytes)}`],
      ["indexes", `${bytes(numbers.index_bytes)} of ${numbers.joins} join${numbers.joins === 1 ? "" : "s"}`], ["late", count(numbers.late)],
      numbers.newest && ["newest", time(numbers.newest)], numbers.watermark && ["watermark", time(numbers.watermark)],
    ]} />}
    <Plot label="rows a second" series={[{ name: "arrived", tone: "tone-a", points: history.series(readStream(stream.name)) }]} />
    {stream.schema && <table class="schema"><tbody>{Object.entries(stream.schema).map(([name, type]) => <tr><th>{name}</th><td>{type}</td></tr>)}</tbody></table>}
  </>;
}

// What is compared on candidates, beyond what the index has decided.
const checked = (join) => join?.checks.filter((text) => !join.drivers.some((driver) => driver.includes(text))) ?? [];

function Block({ block, history, picture }) {
  const numbers = history.last?.stats.blocks[block.id];
  return <>
    <h2>{block.join ? `${block.join.how} join` : titles[block.kind] || block.kind} <span class="quiet">block {block.id}</span></h2>
    {picture && <Picture data={picture} condition={block.join.condition} />}
    <pre class="instruction">{block.instruction}</pre>
    {numbers && <Facts items={[
      ["for", block.queries.join(", ")], ["given", `${count(numbers.rows)} rows`], ["rate", rate(history.rate(readBlock(block.id)))],
      ["busy", percent(history.rate(readBusy(block.id)))], block.remembers && ["held", `${count(numbers.held)}, ${bytes(numbers.bytes)}`],
      Object.values(numbers.late).some(Boolean) && ["late", Object.entries(numbers.late).map(([name, n]) => `${count(n)} of ${name}`).join(", ")],
      numbers.watermark && ["watermark", time(numbers.watermark)],
      block.join?.drivers.length && ["driven by", block.join.drivers.join(", ")], checked(block.join).length && ["checked", checked(block.join).join(", ")],
      block.join?.residual && ["residual", block.join.residual],
    ]} />}
    {numbers?.inside.length > 0 && <table class="inside">
      <thead><tr><th>stream</th><th>window</th><th>rows</th><th>sub-windows</th><th>index</th><th>bytes</th></tr></thead>
      <tbody>{numbers.inside.map((side, k) => <tr><th>{side.name}</th><td>{block.join.sides[k].window}</td><td>{count(side.rows)}</td><td>{side.subwindows}</td><td>{side.indexes.join(", ")}</td><td>{bytes(side.bytes)}</td></tr>)}</tbody>
    </table>}
    <Plot label="rows a second" series={[{ name: "given", tone: "tone-a", points: history.series(readBlock(block.id)) }]} />
    <details><summary>explain</summary><pre>{block.explain}</pre></details>
  </>;
}

function Query({ query, history, rows }) {
  return <>
    <h2>Query {query.name} <span class={`state ${query.state}`}>{query.state}</span></h2>
    {query.reason && <p class="wrong">{query.reason}</p>}
    <pre class="instruction">{query.sql.trim()}</pre>
    <div class="row">
      <button type="button" onClick={() => window.dispatchEvent(new CustomEvent("wm-edit", { detail: `ALTER QUERY ${quoted(query.name)} AS\n${query.sql.trim()}` }))}>Alter</button>
      <button type="button" onClick={() => window.dispatchEvent(new CustomEvent("wm-drop", { detail: query.name }))}>Drop</button>
    </div>
    <Plot label="rows a second" series={[{ name: "given", tone: "tone-a", points: history.series(readQuery(query.name)) }]} />
    <h3>Last results</h3>
    <Table data={rows} />
    <details><summary>explain</summary><pre>{query.explain}</pre></details>
  </>;
}
