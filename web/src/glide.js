// Things that move glide to where they belong, so that the eye can follow; who wants less motion sees them there at once.
import { useEffect, useRef, useState } from "preact/hooks";

const STILL = window.matchMedia("(prefers-reduced-motion: reduce)");
const SPENT = 380; // milliseconds

export function useGlide(targets) {
  const now = useRef(new Map());
  const frame = useRef(0);
  const [, draw] = useState(0);
  useEffect(() => {
    cancelAnimationFrame(frame.current);
    const from = new Map(now.current);
    const begin = performance.now();
    const known = [...targets.keys()].some((id) => from.has(id));
    const step = (at) => {
      const t = STILL.matches || !known ? 1 : Math.min(1, (at - begin) / SPENT);
      const eased = 1 - (1 - t) ** 3;
      const next = new Map();
      for (const [id, to] of targets) {
        const start = from.get(id) ?? to;
        next.set(id, { x: start.x + (to.x - start.x) * eased, y: start.y + (to.y - start.y) * eased });
      }
      now.current = next;
      draw((n) => n + 1);
      if (t < 1) frame.current = requestAnimationFrame(step);
    };
    step(begin);
    return () => cancelAnimationFrame(frame.current);
  }, [targets]);
  const shown = new Map(now.current);
  for (const [id, to] of targets) if (!shown.has(id)) shown.set(id, to);
  return shown;
}
