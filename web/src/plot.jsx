// A line over time, and bars: small, drawn as SVG in the colours of the page.
import { useState } from "preact/hooks";
import { short } from "./format.js";

export function Plot({ series, label, unit = "/s", height = 120, span = 60, across = (x) => `${x.toFixed(0)} s` }) {
  const [hover, setHover] = useState(null);
  const [w, h, left, bottom] = [360, height, 42, 18];
  const all = series.flatMap((one) => one.points);
  const [x0, x1] = span ? [-span, 0] : [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
  const top = nice(Math.max(0, ...all.map((p) => p[1])) || 1);
  const px = (x) => left + ((x - x0) / (x1 - x0 || 1)) * (w - left - 6);
  const py = (y) => h - bottom - (y / top) * (h - bottom - 8);
  const path = (points) => points.map((p, k) => `${k ? "L" : "M"}${px(p[0]).toFixed(1)} ${py(p[1]).toFixed(1)}`).join("");
  const near = hover == null ? null : series.map((one) => ({ ...one, point: closest(one.points, hover) })).filter((one) => one.point);
  return (
    <figure class="plot">
      <figcaption>
        {label}
        {series.length > 1 && series.map((one) => <span class={`key ${one.tone}`}>{one.name}</span>)}
        <output>{near?.length ? near.map((one) => `${series.length > 1 ? `${one.name} ` : ""}${short(one.point[1])}${unit}`).join(", ") : ""}</output>
      </figcaption>
      <svg
        viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`${label}: ${all.length ? `now ${short(all.at(-1)[1])}${unit}` : "nothing yet"}`}
        onPointerMove={(event) => {
          const at = event.currentTarget.getBoundingClientRect();
          setHover(x0 + ((((event.clientX - at.left) / at.width) * w - left) / (w - left - 6)) * (x1 - x0));
        }}
        onPointerLeave={() => setHover(null)}
      >
        {[0, 0.5, 1].map((share) => (
          <g>
            <line class="grid" x1={left} x2={w - 6} y1={py(top * share)} y2={py(top * share)} />
            <text x={left - 5} y={py(top * share) + 3} text-anchor="end">{short(top * share)}</text>
          </g>
        ))}
        <text x={left} y={h - 4}>{across(x0)}</text>
        <text x={w - 6} y={h - 4} text-anchor="end">{span ? "now" : across(x1)}</text>
        {series.map((one) => (
          <g class={one.tone}>
            {one.points.length > 1 && <path class="area" d={`${path(one.points)}L${px(one.points.at(-1)[0])} ${py(0)}L${px(one.points[0][0])} ${py(0)}Z`} />}
            <path class="line" d={path(one.points)} />
          </g>
        ))}
        {near?.map((one) => <circle class={`dot ${one.tone}`} cx={px(one.point[0])} cy={py(one.point[1])} r="3" />)}
      </svg>
    </figure>
  );
}

function closest(points, x) {
  let found = null;
  for (const point of points) if (!found || Math.abs(point[0] - x) < Math.abs(found[0] - x)) found = point;
  return found;
}

function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 2, 2.5, 5, 10]) if (value <= step * power) return step * power;
  return 10 * power;
}

export function Bars({ label, items, unit = "" }) {
  const most = Math.max(1, ...items.map((one) => one.value));
  return (
    <figure class="bars">
      <figcaption>{label}</figcaption>
      <ol>
        {items.map((one) => (
          <li>
            <span>{one.name}</span>
            <meter min="0" max={most} value={one.value}>{one.value}</meter>
            <b>{one.text ?? `${short(one.value)}${unit}`}</b>
          </li>
        ))}
      </ol>
    </figure>
  );
}
