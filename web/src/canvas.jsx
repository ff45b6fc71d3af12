// A plane that can be moved and zoomed: by mouse, wheel, touch pad, buttons and keys. What it shows is drawn in its own coordinates.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";

const LEAST = 0.15;
const MOST = 2.5;
const LOW = 30; // room for the buttons

export function useView() {
  const box = useRef(null);
  const [view, setView] = useState({ x: 0, y: 0, k: 1 });
  const touched = useRef(false);
  const held = useRef(view);
  held.current = view;
  const fit = useCallback((bounds, by = "auto") => {
    if (by === "auto" && touched.current) return;
    if (by === "user") touched.current = false;
    const { clientWidth: w, clientHeight: h } = box.current ?? {};
    if (!w || !h) return;
    const pad = 28;
    const k = Math.min(1.15, Math.max(LEAST, Math.min((w - 2 * pad) / (bounds.right - bounds.left), (h - 2 * pad - LOW) / (bounds.bottom - bounds.top))));
    setView({ k, x: w / 2 - ((bounds.left + bounds.right) / 2) * k, y: (h - LOW) / 2 - ((bounds.top + bounds.bottom) / 2) * k });
  }, []);
  const zoom = useCallback((factor, px, py) => {
    touched.current = true;
    setView((v) => {
      const k = Math.min(MOST, Math.max(LEAST, v.k * factor));
      const [cx, cy] = [px ?? box.current.clientWidth / 2, py ?? box.current.clientHeight / 2];
      return { k, x: cx - ((cx - v.x) * k) / v.k, y: cy - ((cy - v.y) * k) / v.k };
    });
  }, []);
  const pan = useCallback((dx, dy) => {
    touched.current = true;
    setView((v) => ({ ...v, x: v.x + dx, y: v.y + dy }));
  }, []);
  const toPlane = useCallback((clientX, clientY) => {
    const at = box.current.getBoundingClientRect();
    return { x: (clientX - at.left - held.current.x) / held.current.k, y: (clientY - at.top - held.current.y) / held.current.k };
  }, []);
  return { box, view, fit, zoom, pan, toPlane };
}

export function Canvas({ plane, bounds, label, children, onBlank, onKey, ...rest }) {
  const { box, view, fit, zoom, pan } = plane;
  const drag = useRef(null);
  useEffect(() => {
    const target = box.current;
    const wheel = (event) => {
      event.preventDefault();
      const at = target.getBoundingClientRect();
      if (event.ctrlKey || Math.abs(event.deltaY) >= 40) zoom(Math.exp(-event.deltaY * 0.0018), event.clientX - at.left, event.clientY - at.top);
      else pan(-event.deltaX, -event.deltaY);
    };
    target.addEventListener("wheel", wheel, { passive: false });
    return () => target.removeEventListener("wheel", wheel);
  }, []);
  const keys = (event) => {
    if (onKey?.(event)) return;
    if (event.target !== box.current) return;
    const step = 60;
    const does = {
      ArrowLeft: () => pan(step, 0), ArrowRight: () => pan(-step, 0), ArrowUp: () => pan(0, step), ArrowDown: () => pan(0, -step),
      "+": () => zoom(1.2), "=": () => zoom(1.2), "-": () => zoom(1 / 1.2), 0: () => fit(bounds, "user"),
    }[event.key];
    if (does) {
      event.preventDefault();
      does();
    }
  };
  return (
    <div
      class="canvas" ref={box} tabIndex={0} role="application" aria-label={`${label}; arrow keys move it, plus and minus zoom, 0 shows all`}
      onKeyDown={keys}
      onPointerDown={(event) => {
        if (event.button !== 0 || event.target.closest("[data-solid]")) return;
        drag.current = { x: event.clientX, y: event.clientY, moved: false };
        box.current.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        if (!drag.current) return;
        const [dx, dy] = [event.clientX - drag.current.x, event.clientY - drag.current.y];
        if (!drag.current.moved && Math.hypot(dx, dy) < 4) return;
        drag.current = { x: event.clientX, y: event.clientY, moved: true };
        pan(dx, dy);
      }}
      onPointerUp={() => {
        if (drag.current && !drag.current.moved) onBlank?.();
        drag.current = null;
      }}
      {...rest}
    >
      <div class="plane" style={{ transform: `translate(${view.x}px, ${view.y}px) scale(${view.k})` }}>{children}</div>
      <div class="zoom" data-solid>
        <button onClick={() => zoom(1.25)} aria-label="zoom in">+</button>
        <button onClick={() => zoom(0.8)} aria-label="zoom out">−</button>
        <button onClick={() => fit(bounds, "user")} aria-label="show all" title="show all (0)">⤢</button>
      </div>
    </div>
  );
}
