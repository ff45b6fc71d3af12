// The page: one connection, two views of a processor and its design (or one of a Spark query's files), light and dark.
import { render } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import "./app.css";
import { Design } from "./design.jsx";
import { count, rate } from "./format.js";
import { Live } from "./live.jsx";
import { History } from "./rates.js";
import { connect, listen, state as connection } from "./socket.js";
import { Spark } from "./spark.jsx";

const SAYS = { connecting: "connecting", connected: "connected", gone: "server gone, trying again", refused: "refused: open the whole address" };

function useTheme() {
  const [theme, setTheme] = useState(() => localStorage.getItem("wm-theme") ?? "system");
  useEffect(() => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    localStorage.setItem("wm-theme", theme);
  }, [theme]);
  return [theme, () => setTheme({ system: "light", light: "dark", dark: "system" }[theme])];
}

function App() {
  const history = useRef(new History());
  const [shown, setShown] = useState({ plan: null, digest: null, spark: null, run: null, trouble: null });
  const [link, setLink] = useState(connection);
  const [view, setView] = useState(() => (location.hash === "#design" ? "design" : "live"));
  const [look, setLook] = useState(null);
  const [theme, turn] = useTheme();
  useEffect(() => {
    const end = listen((message) => {
      if (message.type === "connection") setLink(message.state);
      else if (message.type === "plan") setShown((now) => ({ ...now, plan: message }));
      else if (message.type === "digest") {
        history.current.add(message);
        setShown((now) => ({ ...now, digest: message, trouble: null }));
      } else if (message.type === "spark") setShown((now) => ({ ...now, spark: message, trouble: null }));
      else if (message.type === "run") setShown((now) => ({ ...now, run: message }));
      else if (message.type === "trouble") setShown((now) => ({ ...now, trouble: message.message }));
    });
    connect(); // only now: whatever comes is heard
    return end;
  }, []);
  useEffect(() => {
    const go = () => setView(location.hash === "#design" ? "design" : "live");
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  const { plan, digest, spark } = shown;
  const source = digest?.source;
  const pushed = history.current.rate((stats) => Object.values(stats.streams).reduce((sum, one) => sum + one.arrived, 0));
  const late = digest && Object.values(digest.stats.streams).reduce((sum, one) => sum + one.late, 0);
  const setRun = useCallback((run) => setShown((now) => ({ ...now, run })), []);
  const design = useMemo(() => <Design link={link} run={shown.run} setRun={setRun} />, [link, shown.run]); // digests are not its business
  return <>
    <header class="top">
      <h1><img src="/static/icon.svg" alt="" width="26" height="26" />Watersmeet</h1>
      <nav aria-label="views">
        <a href="#live" aria-current={view === "live" ? "page" : undefined}>{spark ? "Spark" : "Live"}</a>
        <a href="#design" aria-current={view === "design" ? "page" : undefined}>Design</a>
      </nav>
      <p class="now">
        {plan && view === "live" && <span class="title">{plan.title}</span>}
        {digest && view === "live" && <>
          <span data-testid="pushed" title="rows of all streams"><b>{rate(pushed)}</b></span>
          <span class="quiet">{count(digest.stats.pushes)} {digest.stats.pushes === 1 ? "push" : "pushes"}{late ? `, ${count(late)} late` : ""}</span>
          {source && source.state !== "running" && <span class={source.error ? "wrong" : "quiet"}>{source.error ?? `streams ${source.state}`}</span>}
          {source?.behind > 1 && <span class="wrong">behind</span>}
        </>}
        {shown.trouble && <span class="wrong">{shown.trouble}</span>}
      </p>
      <span class={`link ${link}`} role="status" data-testid="link">{SAYS[link]}</span>
      <button type="button" class="theme" onClick={turn} aria-label={`colours: ${theme}`} title={`colours: ${theme}`}>{{ system: "◐", light: "☀", dark: "☾" }[theme]}</button>
    </header>
    {view === "design" ? design
      : spark ? <Spark data={spark} />
        : plan ? <Live plan={plan.plan} writable={plan.writable} history={history.current} results={digest?.results ?? {}} pictures={digest?.pictures ?? {}} look={look} setLook={setLook} />
          : <p class="empty">{link === "connected" ? "Waiting for the processor. The very first run compiles." : SAYS[link]}</p>}
  </>;
}

render(<App />, document.getElementById("root"));
