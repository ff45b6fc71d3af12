// SQL with its words coloured, and the place underlined that an error is about. A plain text field lies over the coloured copy, so that
// everything works that works in text fields.
import { useRef } from "preact/hooks";

const WORDS = /\b(SELECT|FROM|WHERE|GROUP|BY|HAVING|ORDER|LIMIT|JOIN|LEFT|RIGHT|FULL|SEMI|ANTI|INNER|OUTER|CROSS|ON|AND|OR|NOT|BETWEEN|IN|IS|NULL|AS|UNION|ALL|DISTINCT|CREATE|ALTER|DROP|QUERY|EMIT|START|WARM|BACKFILL|INTERVAL|DATE|TIMESTAMP|SECONDS?|MILLISECONDS?|MINUTES?|HOURS?|ASC|DESC|CASE|WHEN|THEN|ELSE|END|CAST|WITH|COUNT|SUM|MIN|MAX|AVG|FIRST|LAST)\b|('(?:[^']|'')*'?)|(--[^\n]*)|\b(\d+(?:\.\d+)?)\b/gi;

function coloured(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(WORDS)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    const tone = found[1] ? "word" : found[2] ? "text" : found[3] ? "remark" : "number";
    parts.push(<span class={`sql-${tone}`}>{found[0]}</span>);
    at = found.index + found[0].length;
  }
  parts.push(text.slice(at));
  return parts;
}

export function Editor({ label, value, onInput, onRun, span, rows = 8, id }) {
  const below = useRef(null);
  const [start, end] = span ?? [0, 0];
  return (
    <div class="editor">
      <pre ref={below} aria-hidden="true">
        {span ? [coloured(value.slice(0, start)), <mark>{coloured(value.slice(start, Math.max(end, start + 1)) || " ")}</mark>, coloured(value.slice(Math.max(end, start + 1)))] : coloured(value)}
        {"\n"}
      </pre>
      <textarea
        id={id} rows={rows} aria-label={label} spellcheck={false} autocapitalize="off" autocomplete="off" value={value} aria-invalid={span ? "true" : "false"}
        onInput={(event) => onInput(event.currentTarget.value)}
        onScroll={(event) => {
          below.current.scrollTop = event.currentTarget.scrollTop;
          below.current.scrollLeft = event.currentTarget.scrollLeft;
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
            event.preventDefault();
            onRun?.();
          }
        }}
      />
    </div>
  );
}

export function Table({ data, most = 50 }) {
  if (!data) return <p class="quiet">No rows yet.</p>;
  return (
    <div class="table" tabIndex={0} role="region" aria-label="rows">
      <table>
        <thead><tr>{data.columns.map((name, k) => <th title={data.types[k]}>{name}</th>)}</tr></thead>
        <tbody>
          {data.rows.slice(0, most).map((row) => (
            <tr>{row.map((value, k) => <td class={typeof value === "number" ? "number" : ""}>{shown(value, data.types[k])}</td>)}</tr>
          ))}
        </tbody>
      </table>
      {data.count > data.rows.length && <p class="quiet">{data.rows.length} of {data.count.toLocaleString("en")} rows of one push</p>}
    </div>
  );
}

function shown(value, type) {
  if (value === null) return <i class="quiet">NULL</i>;
  if (value === true || value === false) return String(value);
  if (typeof value === "number" && type.startsWith("double")) return Number.isInteger(value) ? value.toLocaleString("en") : value.toLocaleString("en", { maximumFractionDigits: 4 });
  return String(value).replace("T", " ");
}
