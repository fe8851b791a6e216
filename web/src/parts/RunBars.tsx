import { useState } from "react";
import type { RunLine } from "../documents";
import { href, runHref } from "../router";
import { duration, lapse, moment, RUN_WORDS } from "../words";

/** Runs as bars, the oldest on the left, as high as they took long. A click opens one; two that are marked are compared. */
export function RunBars({ runs }: { runs: readonly RunLine[] }) {
  const [marked, setMarked] = useState<RunLine | null>(null);
  const ordered = [...runs].reverse();
  const longest = Math.max(1, ...ordered.map((run) => lapse(run.startedAt, run.endedAt) ?? 0));
  const mark = (run: RunLine) => {
    if (marked === null || marked.runUuid === run.runUuid) {
      setMarked(marked ? null : run);
      return;
    }
    const [before, after] = [marked, run].sort((a, b) => (a.startedAt ?? "").localeCompare(b.startedAt ?? ""));
    location.hash = href("diff", { before: before?.runUuid, after: after?.runUuid });
  };
  return (
    <div className="run-bars">
      <fieldset className="bars">
        <legend className="unseen">Runs, the oldest first: choose two to compare</legend>
        {ordered.map((run) => {
          const took = lapse(run.startedAt, run.endedAt);
          const words = [moment(run.startedAt), RUN_WORDS[run.state], duration(took)].filter(Boolean).join(", ");
          return (
            <button
              key={run.runUuid}
              type="button"
              data-state={run.state}
              aria-pressed={marked?.runUuid === run.runUuid}
              aria-label={`Run ${words}`}
              title={words}
              onClick={() => mark(run)}
            >
              <i style={{ blockSize: `${Math.max(8, ((took ?? 0) / longest) * 100)}%` }} />
            </button>
          );
        })}
      </fieldset>
      <p className="hint" aria-live="polite">
        {marked ? (
          <>
            {moment(marked.startedAt)} is marked: choose another run to compare, or{" "}
            <a href={runHref(marked)}>open this one</a>.
          </>
        ) : (
          "Choose two runs to compare them."
        )}
      </p>
    </div>
  );
}

/** The last runs of a job, small enough for a line of a list. */
export function TinyBars({ runs }: { runs: readonly RunLine[] }) {
  const ordered = [...runs].reverse();
  const longest = Math.max(1, ...ordered.map((run) => lapse(run.startedAt, run.endedAt) ?? 0));
  const failed = runs.filter((run) => run.state === "FAILED").length;
  return (
    <span className="tiny-bars" role="img" aria-label={`last ${runs.length} runs, ${failed} failed`}>
      {ordered.map((run) => (
        <i
          key={run.runUuid}
          data-state={run.state}
          style={{ blockSize: `${Math.max(20, ((lapse(run.startedAt, run.endedAt) ?? 0) / longest) * 100)}%` }}
        />
      ))}
    </span>
  );
}
