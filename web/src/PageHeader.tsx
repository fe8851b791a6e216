import { useState } from "react";
import type { RunPage, RunSummary } from "./page";
import { formatRoute, go, type Route, type Tab } from "./route";
import { duration, memory, moment, RUN_WORDS, shownOf } from "./words";

const TABS: readonly [Tab, string][] = [
  ["run", "Run"],
  ["graph", "Graph"],
];

interface Props {
  route: Route;
  runs: { runs: RunSummary[]; total: number };
  shown: RunPage | null;
}

export function PageHeader({ route, runs, shown }: Props) {
  return (
    <header>
      <a
        className="brand"
        href={formatRoute({ ...route, tab: "run", dataset: null, column: null, version: null, open: null })}
      >
        <Clew />
        clew
      </a>
      {shown && <RunLine page={shown} />}
      {runs.runs.length > 1 && <RunChoice runs={runs} shown={shown?.header.sessionId ?? ""} />}
      <nav aria-label="Views">
        {TABS.map(([tab, name]) => (
          <a key={tab} href={formatRoute({ ...route, tab })} aria-current={route.tab === tab ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      <ThemeSwitch />
    </header>
  );
}

function RunLine({ page }: { page: RunPage }) {
  const { header } = page;
  const facts = [
    moment(header.startedAt),
    `${header.cellCount} ${header.cellCount === 1 ? "cell" : "cells"}`,
    duration(header.durationMs),
    header.peakMemoryMb === null ? "" : `peak ${memory(header.peakMemoryMb)}`,
  ].filter(Boolean);
  const failed = header.failedCount
    ? `${header.failedCount} ${header.failedCount === 1 ? "cell" : "cells"} failed`
    : "";
  return (
    <div className="run-line">
      <h1>
        <bdi>{header.notebook}</bdi>
      </h1>
      <span className="state" data-state={header.state}>
        {failed || RUN_WORDS[header.state]}
      </span>
      <span className="facts">{facts.join(" · ")}</span>
    </div>
  );
}

function RunChoice({ runs, shown }: { runs: Props["runs"]; shown: string }) {
  const cut = shownOf(runs.runs.length, runs.total);
  return (
    <select
      aria-label={`Choose a run${cut ? `, ${cut} listed` : ""}`}
      value={shown}
      onChange={(event) =>
        go({ session: event.target.value, dataset: null, column: null, version: null, nth: null, open: null })
      }
    >
      {runs.runs.map((run) => (
        <option key={run.sessionId} value={run.sessionId}>
          {run.notebook} · {moment(run.startedAt)} · {RUN_WORDS[run.state]}
        </option>
      ))}
      {cut && <option disabled>{cut} runs</option>}
    </select>
  );
}

function ThemeSwitch() {
  const [scheme, setScheme] = useState(() => {
    return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  });
  const other = scheme === "dark" ? "light" : "dark";
  const change = () => {
    document.documentElement.style.colorScheme = other;
    setScheme(other);
  };
  return (
    <button
      type="button"
      className="quiet"
      onClick={change}
      aria-label={`Switch to ${other} colours`}
      title={`${other} colours`}
    >
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.5" />
        <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
      </svg>
    </button>
  );
}

function Clew() {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true" className="mark">
      <circle cx="10.5" cy="10.5" r="7.5" />
      <path d="M4 7.5c4.5-1.5 9.5 0 13 4M3.5 12.5c4.5-1 8.5 1 11 4.5M8 3.600c3.5 1 7 3.5 9.300 6.5M17 14.5c2.5.5 1.5 4 4.5 5" />
    </svg>
  );
}
