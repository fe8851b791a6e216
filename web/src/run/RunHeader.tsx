import { useApi } from "../api/client";
import type { NoPreviousRun, NotebookRunList, RunChange, RunChanges, RunPage } from "../api/types";
import { StateBadge } from "../components/badges";
import controls from "../components/controls.module.css";
import layout from "../components/layout.module.css";
import { countLabel, formatDate, formatDuration, formatMemory, pluralize, RUN_STATE_LABELS } from "../format";
import { changeLabel } from "../pages/DiffPage";
import { jobUrl, navigate, type Route, urlFor, urlWith, type View } from "../router";
import styles from "./RunHeader.module.css";

const TABS: readonly [View, string][] = [
  ["run", "Overview"],
  ["graph", "Graph"],
  ["time", "Timeline"],
];

interface Props {
  page: RunPage;
  route: Route;
  runs: NotebookRunList;
  isServed: boolean;
}

/** Name, state and figures of the run, and the changes since the previous one. */
export function RunHeader({ page, route, runs, isServed }: Props) {
  const { header } = page;
  const facts = [
    formatDate(header.startedAt),
    pluralize(header.cellCount, "cell"),
    formatDuration(header.durationMs),
    header.peakMemoryMb === null ? "" : `peak ${formatMemory(header.peakMemoryMb)}`,
  ].filter(Boolean);
  const current = route.view ?? "run";
  return (
    <div className={styles.header} data-testid="run-header">
      <div className={styles.title}>
        <h1>
          <bdi title={header.notebook}>{header.notebook}</bdi>
        </h1>
        <StateBadge state={header.state}>
          {header.failedCount > 0 && `${pluralize(header.failedCount, "cell")} failed`}
        </StateBadge>
        <span className={layout.facts}>{facts.join(" · ")}</span>
      </div>
      {runs.runs.length > 1 && <RunSelect runs={runs} route={route} sessionId={header.sessionId} />}
      {isServed && (
        <a
          className={controls.quiet}
          href={jobUrl({ namespace: "marimo", name: header.notebook.replace(/\.[^.]+$/, "") })}
        >
          All runs
        </a>
      )}
      <nav aria-label="Views" className={styles.tabs}>
        {TABS.map(([tab, name]) => (
          <a key={tab} href={urlWith(route, {}, tab)} aria-current={current === tab ? "page" : undefined}>
            {name}
          </a>
        ))}
      </nav>
      {isServed && <Changes session={header.sessionId} />}
      {header.losses.map((loss) => (
        <p key={`${loss.message} ${loss.code}`} className={styles.changes} data-testid="capture-loss">
          <span className={layout.faint}>Not captured</span> {loss.message} <code>{loss.code}</code>
        </p>
      ))}
    </div>
  );
}

const MAX_CHANGES = 4;

/** The most important changes since the previous run, with a link to all of them. */
function Changes({ session }: { session: string }) {
  const diff = useApi<RunChanges | NoPreviousRun>(`api/v2/pages/changes/${encodeURIComponent(session)}`);
  if (diff.kind !== "success" || diff.value.before === null) return null;
  const { changes, beforeAt, before, after } = diff.value;
  const link = urlFor("diff", { before, after });
  return (
    <p className={styles.changes} data-testid="changes-since">
      <span className={layout.faint}>
        {changes.length ? "Changes since" : "No changes since"} {formatDate(beforeAt)}
      </span>
      {changes.slice(0, MAX_CHANGES).map((change) => (
        <a key={`${change.kind} ${change.label}`} className={styles.change} data-tone={toneOf(change)} href={link}>
          {change.label}: {changeLabel(change)}
        </a>
      ))}
      {changes.length > MAX_CHANGES && (
        <a className={styles.change} href={link}>
          {changes.length - MAX_CHANGES} more
        </a>
      )}
    </p>
  );
}

function toneOf(change: RunChange): "bad" | "warn" | undefined {
  if (change.kind === "failed") return "bad";
  return change.kind === "rows" || change.kind === "columns" || change.kind === "slower" ? "warn" : undefined;
}

function RunSelect({ runs, route, sessionId }: { runs: NotebookRunList; route: Route; sessionId: string }) {
  const cut = countLabel(runs.runs.length, runs.total);
  const show = (id: string) => {
    const view = route.view ?? "run";
    navigate(urlFor(view, { scope: route.params.get("scope"), text: route.params.get("text") }, id));
  };
  return (
    <select
      aria-label={`Choose a run${cut ? `, ${cut} listed` : ""}`}
      value={sessionId}
      onChange={(event) => show(event.target.value)}
    >
      {runs.runs.map((run) => (
        <option key={run.sessionId} value={run.sessionId}>
          {run.notebook} · {formatDate(run.startedAt)} · {RUN_STATE_LABELS[run.state]}
        </option>
      ))}
      {cut && <option disabled>{cut} runs</option>}
    </select>
  );
}
