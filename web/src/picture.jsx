// A join at work: rows of two streams as points (or as intervals, where a band has two ends), and lines between those that have met.
export function Picture({ data, condition }) {
  const [w, h, pad] = [360, 240, 30];
  const points = data.sides.flatMap((side) => side.points).filter((p) => p.every((v) => v != null));
  if (!points.length) return <p class="quiet">No rows yet.</p>;
  const xs = points.map((p) => p[0]);
  const ys = points.flatMap((p) => p.slice(1));
  const [x0, x1] = spread(xs);
  const [y0, y1] = spread(ys);
  const px = (x) => pad + ((x - x0) / (x1 - x0)) * (w - pad - 8);
  const py = (y) => h - pad - ((y - y0) / (y1 - y0)) * (h - pad - 8);
  const middle = (p) => (p.length > 2 ? (p[1] + p[2]) / 2 : p[1]);
  const shown = data.pairs.filter(([a, b]) => [data.sides[0].points[a], data.sides[1].points[b]].every((p) => p?.every((v) => v != null)));
  return (
    <figure class="picture" data-testid="picture">
      <figcaption>
        <span class="key tone-a">{data.sides[0].name}</span> <span class="key tone-b">{data.sides[1].name}</span>
        <span class="quiet"> {shown.length.toLocaleString("en")} of {data.found.toLocaleString("en")} pairs of the last push, a sample</span>
      </figcaption>
      <svg viewBox={`0 0 ${w} ${h}`} role="img" aria-label={`rows of ${data.sides[0].name} and ${data.sides[1].name} where ${condition}; ${shown.length} pairs shown`}>
        <rect class="frame" x={pad} y={8} width={w - pad - 8} height={h - pad - 8} />
        {shown.map(([a, b]) => {
          const [p, q] = [data.sides[0].points[a], data.sides[1].points[b]];
          return <line class="pair" x1={px(p[0])} y1={py(middle(p))} x2={px(q[0])} y2={py(middle(q))} />;
        })}
        {data.sides.map((side, k) => (
          <g class={k ? "tone-b" : "tone-a"}>
            {side.points.filter((p) => p.every((v) => v != null)).map((p) =>
              p.length > 2 ? <line class="interval" x1={px(p[0])} x2={px(p[0])} y1={py(p[1])} y2={py(p[2])} />
                : k ? <rect class="point" x={px(p[0]) - 1.6} y={py(p[1]) - 1.6} width="3.2" height="3.2" />
                  : <circle class="point" cx={px(p[0])} cy={py(p[1])} r="1.9" />,
            )}
          </g>
        ))}
        <text x={w - 8} y={h - 8} text-anchor="end">{clip(data.axes[0])} →</text>
        <text x={12} y={h - pad} transform={`rotate(-90 12 ${h - pad})`}>{clip(data.axes[1])} →</text>
      </svg>
    </figure>
  );
}

const clip = (text) => (text.length > 46 ? `${text.slice(0, 45)}…` : text);

function spread(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const more = (high - low || Math.abs(high) || 1) * 0.04;
  return [low - more, high + more];
}
