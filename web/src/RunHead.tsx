import type { Change, RunChanges } from "./documents";
import type { RunPage, RunSummary } from "./page";
import { useFetched } from "./parts/Loaded";
import { formatRoute, go, type Route, type Tab } from "./route";
import { href, jobHref } from "./router";
import { changeWords } from "./views/DiffPage";
import { duration, memory, moment, RUN_WORDS, shownOf } from "./words";

const TABS: readonly [Tab, string][] = [
  ["run", "Lanes"],
  ["graph", "Graph"],
  ["time", "Time"],
];

export interface Runs {
  runs: RunSummary[];
  total: number;
}

/** Which run this is, how it went, and what is different from the run before. */
export function RunHead({
  page,
  route,
  runs,
  isServed,
}: {
  page: RunPage;
  route: Route;
  runs: Runs;
  isServed: boolean;
}) {
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
    <div className="run-head">
      <div className="run-line">
        <h1>
          <bdi title={header.notebook}>{header.notebook}</bdi>
        </h1>
        <span className="state" data-state={header.state}>
          {failed || RUN_WORDS[header.state]}
        </span>
        <span className="facts">{facts.join(" · ")}</span>
      </div>
      {runs.runs.length > 1 && <RunChoice runs={runs} shown={header.sessionId} />}
      {isServed && (
        <a className="quiet" href={jobHref({ namespace: "marimo", name: header.notebook.replace(/\.[^.]+$/, "") })}>
          All runs
        </a>
      )}
      <nav aria-label="Views" className="tabs">
        {TABS.map(([tab, name]) => (
          <a key={tab} href={formatRoute({ ...route, tab })} aria-current={route.tab === tab ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      {isServed && <Changes session={header.sessionId} />}
    </div>
  );
}

const MOST_NAMED = 4;

/** The differences that matter most, each in a few words; all of them are a click away. */
function Changes({ session }: { session: string }) {
  const found = useFetched<RunChanges>(`api/v2/pages/changes/${encodeURIComponent(session)}`);
  if (found.kind !== "value" || found.value.before === null) return null;
  const { changes, beforeAt, before, after } = found.value;
  const link = href("diff", { before, after });
  return (
    <p className="change-line">
      <span className="faint">
        {changes.length ? "since" : "the same as"} {moment(beforeAt)}
      </span>
      {changes.slice(0, MOST_NAMED).map((change) => (
        <a key={`${change.kind} ${change.label}`} className="change" data-tone={toneOf(change)} href={link}>
          {change.label}: {changeWords(change)}
        </a>
      ))}
      {changes.length > MOST_NAMED && (
        <a className="change" href={link}>
          {changes.length - MOST_NAMED} more
        </a>
      )}
    </p>
  );
}

function toneOf(change: Change): "bad" | "warn" | undefined {
  if (change.kind === "failed") return "bad";
  return change.kind === "rows" || change.kind === "columns" || change.kind === "slower" ? "warn" : undefined;
}

function RunChoice({ runs, shown }: { runs: Runs; shown: string }) {
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
