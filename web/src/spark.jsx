// A Spark query from its files: batches over time, cores and skew, hosted queries. It is only looked at.
import { bytes, count, short, time } from "./format.js";
import { Bars, Plot } from "./plot.jsx";

export function Spark({ data }) {
  return (
    <main class="spark">
      <p class="quiet">{data.location}, read-only</p>
      {data.operators.map((one) => <Operator key={`${one.query}/${one.name}`} one={one} />)}
      {data.queries.length > 0 && <section class="card">
        <h2>Hosted queries</h2>
        <table class="wide"><thead><tr><th>query</th><th>state</th><th>on cores</th><th>text</th></tr></thead>
          <tbody>{data.queries.map((query) => <tr><th>{query.name}</th><td><span class={`state ${query.state}`}>{query.state}</span> {query.reason}</td><td>{query.spread}</td><td><code>{query.sql}</code></td></tr>)}</tbody></table>
      </section>}
    </main>
  );
}

function Operator({ one }) {
  const last = one.batches.at(-1);
  const over = (read) => one.batches.map((batch) => [batch.batch, read(batch)]).filter((point) => point[1] != null);
  const across = (x) => `batch ${x}`;
  const arrived = one.batches.map((batch, k) => (k ? [batch.batch, sum(batch.arrived) - sum(one.batches[k - 1].arrived)] : null)).filter(Boolean);
  return (
    <section class="card" data-testid="operator">
      <h2>{one.kind} {one.name} <span class="quiet">of query {one.query}</span></h2>
      {one.condition && <pre class="instruction">{one.condition}</pre>}
      {last && <dl class="facts wide">
        <dt>last batch</dt><dd>{last.batch}{last.begun ? `, ${new Date(last.begun * 1000).toLocaleTimeString("en-GB")}` : ""}</dd>
        <dt>state</dt><dd>{count(last.rows)} rows, {bytes(last.bytes)}</dd>
        <dt>late</dt><dd>{count(last.late)}</dd>
        <dt>watermark</dt><dd>{time(last.watermark)}</dd>
        <dt>skew</dt><dd>{last.skew == null ? "–" : `the fullest core has ${last.skew.toFixed(2)} times the mean`}</dd>
      </dl>}
      <div class="plots">
        {arrived.length > 1 && arrived.some((p) => p[1] > 0) && <Plot label="rows of a batch" unit="" span={0} across={across} series={[{ name: "rows", tone: "tone-a", points: arrived }]} />}
        {over((b) => b.seconds).length > 1 && <Plot label="seconds of a batch" unit=" s" span={0} across={across} series={[{ name: "seconds", tone: "tone-b", points: over((b) => b.seconds) }]} />}
        <Plot label="rows held" unit="" span={0} across={across} series={[{ name: "rows", tone: "tone-a", points: over((b) => b.rows) }]} />
        <Bars label="rows held, by core" items={one.cores.map((core) => ({ name: `core ${core.core}`, value: core.rows, text: `${short(core.rows)} · ${bytes(core.bytes)}` }))} />
      </div>
    </section>
  );
}

const sum = (counts) => Object.values(counts).reduce((total, n) => total + n, 0);
