// The one connection to the server. It comes back by itself, and says how it stands; answers find who has asked.
const token = new URLSearchParams(location.search).get("token") ?? "";
const waiting = new Map();
const listeners = new Set();
let socket = null;
let number = 0;
let patience = 250; // milliseconds until the next try
export let state = "connecting";

export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(message) {
  for (const listener of [...listeners]) listener(message);
}

function become(next) {
  if (state !== next) {
    state = next;
    tell({ type: "connection", state });
  }
}

export function connect() {
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const mine = new WebSocket(`${scheme}://${location.host}/live?token=${encodeURIComponent(token)}`);
  socket = mine;
  mine.onopen = () => {
    patience = 250;
    become("connected");
    tell({ type: "hello" });
  };
  mine.onmessage = (event) => {
    const message = JSON.parse(event.data);
    if (message.type === "answer") {
      const answer = waiting.get(message.id);
      waiting.delete(message.id);
      answer?.(message);
    } else tell(message);
  };
  mine.onclose = (event) => {
    if (socket !== mine) return;
    for (const answer of waiting.values()) answer({ ok: false, message: "the server is gone", span: null });
    waiting.clear();
    if (event.code === 4403 || event.code === 4429) {
      become("refused");
      return;
    }
    become("gone");
    setTimeout(connect, patience);
    patience = Math.min(4000, patience * 2);
  };
}

// What the server answers; a refusal has ok: false, message, and perhaps span.
export function ask(verb, fields = {}) {
  return new Promise((resolve) => {
    if (socket?.readyState !== WebSocket.OPEN) {
      resolve({ ok: false, message: "the server is gone", span: null });
      return;
    }
    const id = ++number;
    waiting.set(id, resolve);
    socket.send(JSON.stringify({ do: verb, id, ...fields }));
  });
}
