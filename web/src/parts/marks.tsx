/** Small things that stand in many places: times, states, names that lead to their page. */

import type { ReactNode } from "react";
import type { Name, RunLine } from "../documents";
import type { RunState } from "../page";
import { datasetHref, jobHref, runHref } from "../router";
import { ago, duration, lapse, RUN_WORDS, shownOf } from "../words";

export function Ago({ at }: { at: string | null }) {
  if (at === null) return null;
  return (
    <time dateTime={at} title={new Date(at).toLocaleString()}>
      {ago(at)}
    </time>
  );
}

export function StateMark({ state }: { state: RunState }) {
  return (
    <span className="state" data-state={state}>
      {RUN_WORDS[state]}
    </span>
  );
}

export function DatasetLink({ dataset, children }: { dataset: Name; children?: ReactNode }) {
  return (
    <a className="name" href={datasetHref(dataset)} title={`${dataset.namespace} ${dataset.name}`}>
      <bdi>{children ?? lastPart(dataset.name)}</bdi>
    </a>
  );
}

export function JobLink({ job }: { job: Name }) {
  return (
    <a className="name" href={jobHref(job)} title={`${job.namespace} ${job.name}`}>
      <bdi>{job.name}</bdi>
    </a>
  );
}

export function RunLink({ run, children }: { run: RunLine; children?: ReactNode }) {
  return (
    <a className="name" href={runHref(run)} title={run.runUuid}>
      <bdi>{children ?? run.job?.name ?? run.runUuid}</bdi>
    </a>
  );
}

export function Took({ run }: { run: RunLine }) {
  return <>{duration(lapse(run.startedAt, run.endedAt))}</>;
}

export function lastPart(name: string): string {
  return name.replace(/\/+$/, "").split("/").at(-1) || name;
}

/** A heading with "12 of 340" beside it where a list is cut, and the number otherwise. */
export function Heading({
  children,
  shown,
  total,
  aside,
}: {
  children: ReactNode;
  shown?: number;
  total?: number;
  aside?: ReactNode;
}) {
  const count = total === undefined ? "" : shownOf(shown ?? total, total) || `${total}`;
  return (
    <div className="heading">
      <h2>
        {children} {count && <span className="count">{count}</span>}
      </h2>
      {aside}
    </div>
  );
}

export function Nothing({ children }: { children: ReactNode }) {
  return <p className="empty">{children}</p>;
}
