// Where things stand. A layered layout, to the right or downward: every edge leads to a later layer; an edge that passes layers has a place
// in each, so that it goes around what stands there; neighbours stand near each other; what was there before keeps its place among the
// others, so that a plan that grows does not shuffle.

const THIN = 14; // the room of an edge that passes a layer

export function layered(nodes, edges, { down = false, gapX = 62, gapY = 20, before = new Map() } = {}) {
  const [main, cross] = down ? ["h", "w"] : ["w", "h"];
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const real = edges.filter((edge) => byId.has(edge.from) && byId.has(edge.to));
  const inputs = new Map(nodes.map((node) => [node.id, []]));
  const outputs = new Map(nodes.map((node) => [node.id, []]));
  for (const edge of real) {
    inputs.get(edge.to).push(edge.from);
    outputs.get(edge.from).push(edge.to);
  }
  const depth = depths(nodes, inputs, outputs);
  const all = [...nodes];
  const routes = new Map();
  const [ins, outs] = [new Map(nodes.map((node) => [node.id, []])), new Map(nodes.map((node) => [node.id, []]))];
  real.forEach((edge, at) => {
    let last = edge.from;
    const through = [];
    for (let layer = depth.get(edge.from) + 1; layer < depth.get(edge.to); layer++) {
      const id = `~${edge.from}>${edge.to}>${edge.of ?? edge.stream ?? at}@${layer}`;
      if (!byId.has(id)) {
        const bend = { id, w: THIN, h: THIN, bend: true };
        byId.set(id, bend);
        all.push(bend);
        depth.set(id, layer);
        ins.set(id, []);
        outs.set(id, []);
      }
      through.push(id);
      outs.get(last).push(id);
      ins.get(id).push(last);
      last = id;
    }
    outs.get(last).push(edge.to);
    ins.get(edge.to).push(last);
    routes.set(edge, through);
  });
  const layers = [];
  for (const node of all) (layers[depth.get(node.id)] ??= []).push(node);
  for (let k = 0; k < layers.length; k++) layers[k] ??= [];
  const seat = new Map();
  const was = (node) => before.get(node.id)?.[down ? "x" : "y"] ?? 1e9;
  for (const layer of layers) {
    layer.sort((a, b) => was(a) - was(b));
    layer.forEach((node, k) => seat.set(node.id, k));
  }
  for (let round = 0; round < 8; round++) {
    const near = round % 2 ? outs : ins;
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      const wish = new Map(layer.map((node, k) => {
        const ids = near.get(node.id);
        return [node.id, ids.length ? ids.reduce((sum, id) => sum + seat.get(id), 0) / ids.length : k];
      }));
      layer.sort((a, b) => wish.get(a.id) - wish.get(b.id));
      layer.forEach((node, k) => seat.set(node.id, k));
    }
  }
  const at = new Map();
  let along = 0;
  for (const layer of layers) {
    const wide = Math.max(0, ...layer.map((node) => (node.bend ? 0 : node[main])));
    const total = layer.reduce((sum, node) => sum + node[cross] + gapY, -gapY);
    let across = -total / 2;
    for (const node of layer) {
      at.set(node.id, { along: along + (wide - (node.bend ? 0 : node[main])) * (node.bend ? 0.5 : 0), across });
      across += node[cross] + gapY;
    }
    along += wide + gapX;
  }
  const centre = (id) => at.get(id).across + byId.get(id)[cross] / 2;
  for (let round = 0; round < 30; round++) {
    for (const layer of round % 2 ? [...layers].reverse() : layers) {
      for (const node of layer) {
        const near = [...ins.get(node.id), ...outs.get(node.id)];
        if (!near.length) continue;
        const wish = near.reduce((sum, id) => sum + centre(id), 0) / near.length - node[cross] / 2;
        at.get(node.id).across += (wish - at.get(node.id).across) * 0.5;
      }
      for (const order of [layer, [...layer].reverse()]) {
        const sign = order === layer ? 1 : -1;
        for (let k = 1; k < order.length; k++) {
          const [one, two] = sign > 0 ? [order[k - 1], order[k]] : [order[k], order[k - 1]];
          const short = at.get(one.id).across + one[cross] + gapY - at.get(two.id).across;
          if (short > 0) {
            if (round > 24) at.get(two.id).across += sign > 0 ? short : 0;
            else {
              at.get(one.id).across -= short / 2;
              at.get(two.id).across += short / 2;
            }
          }
        }
      }
    }
  }
  const places = new Map();
  for (const [id, { along: a, across: c }] of at) places.set(id, down ? { x: c, y: a } : { x: a, y: c });
  return { places, routes, down };
}

function depths(nodes, inputs, outputs) {
  const depth = new Map();
  const dive = (id, path) => {
    if (depth.has(id)) return depth.get(id);
    if (path.has(id)) return 0;
    path.add(id);
    const found = Math.max(0, ...inputs.get(id).map((one) => dive(one, path) + 1));
    path.delete(id);
    depth.set(id, found);
    return found;
  };
  for (const node of nodes) dive(node.id, new Set());
  const deepest = Math.max(0, ...nodes.filter((node) => !node.last).map((node) => depth.get(node.id)));
  for (const node of nodes) if (node.last) depth.set(node.id, deepest + 1);
  // A block stands right before what reads it, so that edges are short.
  for (const node of [...nodes].sort((a, b) => depth.get(b.id) - depth.get(a.id))) {
    const next = outputs.get(node.id);
    if (node.last || !next.length || !inputs.get(node.id).length) continue;
    depth.set(node.id, Math.max(depth.get(node.id), Math.min(...next.map((one) => depth.get(one))) - 1));
  }
  return depth;
}

// Downward or to the right: whichever shows more in a box of that shape; the way it was stays unless the other is clearly better.
export function best(nodes, edges, { width, height, before, down }) {
  const both = [false, true].map((way) => layered(nodes, edges, { down: way, gapX: way ? 46 : 62, gapY: way ? 18 : 20, before }));
  const sizes = both.map((one) => {
    const b = bounds(nodes, one.places);
    return Math.min(width / (b.right - b.left), height / (b.bottom - b.top));
  });
  const better = sizes[1] > sizes[0];
  if (down != null && sizes[Number(better)] < 1.3 * sizes[Number(down)]) return both[Number(down)];
  return both[Number(better)];
}

export function bounds(nodes, places) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const node of nodes) {
    const at = places.get(node.id);
    if (!at) continue;
    left = Math.min(left, at.x);
    top = Math.min(top, at.y);
    right = Math.max(right, at.x + node.w);
    bottom = Math.max(bottom, at.y + node.h);
  }
  return right < left ? { left: 0, top: 0, right: 1, bottom: 1 } : { left, top, right, bottom };
}
