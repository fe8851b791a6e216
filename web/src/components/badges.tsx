/** Small links and badges: times, states, names that link to their page. */

import type { ReactNode } from "react";
import type { EntityName, QualityCounts, RunListItem, RunState } from "../api/types";
import { baseName, elapsedMs, formatDuration, nodeLabel, pluralize, RUN_STATE_LABELS, timeAgo } from "../format";
import { datasetUrl, jobUrl, runUrl } from "../router";
import styles from "./badges.module.css";

export function TimeAgo({ at }: { at: string | null }) {
  if (at === null) return null;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {timeAgo(at)}
    </time>
  );
}

/** The state of a run; `children` replace its label. */
export function StateBadge({ state, children }: { state: RunState; children?: ReactNode }) {
  return (
    <span className={styles.badge} data-state={state}>
      {children || RUN_STATE_LABELS[state]}
    </span>
  );
}

export function DeletedBadge() {
  return <span className={styles.badge}>deleted</span>;
}

/** The number of data quality tests, or of those that failed. */
export function TestsBadge({ tests }: { tests: QualityCounts | null }) {
  if (tests === null) return null;
  const { failed, passed, total } = tests;
  return (
    <span className={styles.badge} data-state={failed ? "FAILED" : "COMPLETED"} data-testid="tests-badge">
      {failed
        ? `${failed} of ${pluralize(total, "test")} failed`
        : `${passed < total ? `${passed} of ` : ""}${pluralize(total, "test")} passed`}
    </span>
  );
}

export function DatasetLink({ dataset, children }: { dataset: EntityName; children?: ReactNode }) {
  return (
    <a className={styles.link} href={datasetUrl(dataset)} title={nodeLabel(dataset)}>
      <bdi>{children ?? (baseName(dataset.name) || nodeLabel(dataset))}</bdi>
    </a>
  );
}

export function JobLink({ job }: { job: EntityName }) {
  return (
    <a className={styles.link} href={jobUrl(job)} title={nodeLabel(job)}>
      <bdi>{job.name || nodeLabel(job)}</bdi>
    </a>
  );
}

export function RunLink({ run, children }: { run: RunListItem; children?: ReactNode }) {
  return (
    <a className={styles.link} href={runUrl(run)} title={run.runUuid}>
      <bdi>{children ?? (run.job?.name || run.runUuid)}</bdi>
    </a>
  );
}

export function RunDuration({ run }: { run: RunListItem }) {
  return <>{formatDuration(elapsedMs(run.startedAt, run.endedAt))}</>;
}
