// Components of a fabric as they are drawn: how large, where their ports are, and where they stand if nobody has moved them.
// Which ports there are, and what fits, is the server's business.
const SIDES = {
  op_block: { r_in: "left", s_out: "left", r_out: "right", s_in: "right", result: "bottom" },
  gswitch_l: { north: "top", west: "left", south: "bottom", east: "right" },
  decomposer: { in: "top", out: "bottom", detached: "right" },
  composer: { in: "top", out: "bottom", detached: "right" },
};
const UNIT = { w: 112, h: 38 };

export function sizeOf(part) {
  if (part.kind === "brick") {
    const columns = Math.min(4, Math.max(2, part.units.length));
    const rows = Math.ceil(part.units.length / columns);
    return { w: columns * (UNIT.w + 5) + 12, h: 26 + 21 + rows * (UNIT.h + 4) + 21 + 2, columns };
  }
  if (part.kind === "op_block") return { w: 128, h: 84 };
  if (part.kind === "result_buffer") return { w: Math.max(138, 16 * part.fan_in + 24), h: 36 };
  if (part.kind === "gswitch_d") return { w: Math.max(138, 20 * part.fan_out + 24), h: 36 };
  return { w: 146, h: 32 };
}

// Ports with their places on the component: [{ name, way, sort, x, y, side }].
export function portsOf(part, shape) {
  if (!shape) return [];
  const { w, h } = sizeOf(part);
  const known = SIDES[part.kind] ?? {};
  const all = [
    ...Object.entries(shape.inputs).map(([name, sort]) => ({ name, sort, way: "in", side: known[name] ?? "top" })),
    ...Object.entries(shape.outputs).map(([name, sort]) => ({ name, sort, way: "out", side: known[name] ?? "bottom" })),
  ];
  for (const side of ["top", "right", "bottom", "left"]) {
    const mine = all.filter((port) => port.side === side).sort((a, b) => (a.sort === "s") - (b.sort === "s")); // lane R above lane S
    mine.forEach((port, k) => {
      const share = (k + 1) / (mine.length + 1);
      port.x = side === "left" ? 0 : side === "right" ? w : w * share;
      port.y = side === "top" ? 0 : side === "bottom" ? h : h * share;
    });
  }
  return all;
}

const AWAY = { top: [0, -1], bottom: [0, 1], left: [-1, 0], right: [1, 0] };

export function wirePath(a, b) {
  const [ax, ay] = AWAY[a.side];
  const [bx, by] = AWAY[b.side];
  const reach = Math.max(26, Math.min(90, Math.hypot(b.x - a.x, b.y - a.y) * 0.4));
  return `M${a.x} ${a.y}C${a.x + ax * reach} ${a.y + ay * reach} ${b.x + bx * reach} ${b.y + by * reach} ${b.x} ${b.y}`;
}

// Rows from top to bottom along the wires; what is wired sideways (lanes of OP-Blocks, east to west) stands side by side.
export function arrange(fabric) {
  const parts = new Map(fabric.components.map((part) => [part.name, part]));
  const ends = fabric.links.map((link) => ({ from: link.from.split("."), to: link.to.split(".") })).filter((link) => parts.has(link.from[0]) && parts.has(link.to[0]));
  const beside = ends.filter(({ from, to }) => (from[1] === "r_out" && to[1] === "r_in" && parts.get(from[0]).kind === "op_block" && parts.get(to[0]).kind === "op_block") || (from[1] === "east" && to[1] === "west"));
  const next = new Map(beside.map(({ from, to }) => [from[0], to[0]]));
  const led = new Set(next.values());
  const groupOf = new Map();
  const groups = [];
  for (const name of parts.keys()) {
    if (led.has(name) && !groupOf.has(name)) continue;
    if (groupOf.has(name)) continue;
    const members = [];
    for (let at = name; at != null && !groupOf.has(at); at = next.get(at)) {
      members.push(at);
      groupOf.set(at, groups.length);
    }
    groups.push(members);
  }
  for (const name of parts.keys()) if (!groupOf.has(name)) groupOf.set(name, groups.push([name]) - 1);
  const above = groups.map(() => new Set());
  for (const { from, to } of ends) {
    const [a, b] = [groupOf.get(from[0]), groupOf.get(to[0])];
    if (a !== b && from[1] !== "detached") above[b].add(a);
  }
  const depth = new Map();
  const dive = (g, path) => {
    if (depth.has(g)) return depth.get(g);
    if (path.has(g)) return 0;
    path.add(g);
    const found = Math.max(0, ...[...above[g]].map((one) => dive(one, path) + 1));
    depth.set(g, found);
    return found;
  };
  groups.forEach((_, g) => dive(g, new Set()));
  const loose = new Set(groups.keys());
  for (const { from, to } of ends) loose.delete(groupOf.get(from[0])) || loose.delete(groupOf.get(to[0]));
  const rows = [];
  groups.forEach((members, g) => (rows[depth.get(g)] ??= []).push(g));
  const places = new Map();
  const gap = 34;
  const widthOf = (g) => groups[g].reduce((sum, name) => sum + sizeOf(parts.get(name)).w + gap, -gap);
  let y = 0;
  for (const row of rows) {
    if (!row) continue;
    const wish = new Map(row.map((g) => {
      const xs = ends.filter(({ from, to }) => groupOf.get(to[0]) === g && places.has(from[0])).map(({ from }) => places.get(from[0]).x + sizeOf(parts.get(from[0])).w / 2);
      return [g, xs.length ? xs.reduce((a, b) => a + b, 0) / xs.length : null];
    }));
    const total = row.reduce((sum, g) => sum + widthOf(g) + gap, -gap);
    row.sort((a, b) => (wish.get(a) ?? 0) - (wish.get(b) ?? 0));
    let x = -Infinity;
    let from = -total / 2;
    for (const g of row) {
      const want = wish.get(g) != null ? wish.get(g) - widthOf(g) / 2 : from;
      x = Math.max(want, x);
      from += widthOf(g) + gap;
      for (const name of groups[g]) {
        places.set(name, { x, y });
        x += sizeOf(parts.get(name)).w + gap;
      }
    }
    y += Math.max(...row.flatMap((g) => groups[g].map((name) => sizeOf(parts.get(name)).h))) + 34;
  }
  // What only feeds a row stands over what it feeds: entries of a chain at its two ends.
  for (const row of rows) {
    for (const g of row ?? []) {
      if (above[g].size || groups[g].length > 1) continue;
      const [name] = groups[g];
      const targets = ends.filter(({ from }) => from[0] === name).map(({ to }) => places.get(to[0]).x + sizeOf(parts.get(to[0])).w / 2);
      if (targets.length) places.get(name).x = targets.reduce((a, b) => a + b, 0) / targets.length - sizeOf(parts.get(name)).w / 2;
    }
  }
  return places;
}
