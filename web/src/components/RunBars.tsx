import { useState } from "react";
import type { RunListItem } from "../api/types";
import { elapsedMs, formatDate, formatDuration, RUN_STATE_LABELS } from "../format";
import { navigate, runUrl, urlFor } from "../router";
import styles from "./RunBars.module.css";

interface Bar {
  run: RunListItem;
  durationMs: number | null;
  /** Share of the longest run. */
  height: number;
}

/** Bars of runs, oldest first, with the duration as their height. */
function barsOf(runs: readonly RunListItem[]): Bar[] {
  const bars = [...runs].reverse().map((run) => ({ run, durationMs: elapsedMs(run.startedAt, run.endedAt) }));
  const longest = Math.max(1, ...bars.map((bar) => bar.durationMs ?? 0));
  return bars.map((bar) => ({ ...bar, height: (bar.durationMs ?? 0) / longest }));
}

/** Runs as bars. Selecting two of them compares them. */
export function RunBars({ runs }: { runs: readonly RunListItem[] }) {
  const [selected, setSelected] = useState<RunListItem | null>(null);
  const select = (run: RunListItem) => {
    if (selected === null || selected.runUuid === run.runUuid) {
      setSelected(selected ? null : run);
      return;
    }
    const [before, after] = [selected, run].sort((a, b) => (a.startedAt ?? "").localeCompare(b.startedAt ?? ""));
    navigate(urlFor("diff", { before: before?.runUuid, after: after?.runUuid }));
  };
  return (
    <div>
      <fieldset className={styles.bars}>
        <legend className="visually-hidden">Runs, oldest first: select two to compare</legend>
        {barsOf(runs).map(({ run, durationMs, height }) => {
          const label = [formatDate(run.startedAt), RUN_STATE_LABELS[run.state], formatDuration(durationMs)]
            .filter(Boolean)
            .join(", ");
          return (
            <button
              key={run.runUuid}
              type="button"
              data-state={run.state}
              aria-pressed={selected?.runUuid === run.runUuid}
              aria-label={`Run ${label}`}
              title={label}
              onClick={() => select(run)}
            >
              <i style={{ blockSize: `${Math.max(8, height * 100)}%` }} />
            </button>
          );
        })}
      </fieldset>
      <p className={styles.hint} aria-live="polite">
        {selected ? (
          <>
            Selected {formatDate(selected.startedAt)}. Select another run to compare, or{" "}
            <a href={runUrl(selected)}>open this run</a>.
          </>
        ) : (
          "Select two runs to compare."
        )}
      </p>
    </div>
  );
}

/** The recent runs of a job as bars inside a table row. */
export function TinyBars({ runs }: { runs: readonly RunListItem[] }) {
  const failed = runs.filter((run) => run.state === "FAILED").length;
  return (
    <span className={styles.tiny} role="img" aria-label={`last ${runs.length} runs, ${failed} failed`}>
      {barsOf(runs).map(({ run, height }) => (
        <i key={run.runUuid} data-state={run.state} style={{ blockSize: `${Math.max(20, height * 100)}%` }} />
      ))}
    </span>
  );
}
