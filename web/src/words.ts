/** Numbers and times as people read them. */

import type { DataState, RunState } from "./page";

const UNITS: readonly [number, string][] = [
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

export function count(value: number): string {
  for (const [size, unit] of UNITS) {
    if (value >= size) return `${trimmed(value / size)}${unit}`;
  }
  return `${value}`;
}

export function duration(ms: number | null): string {
  if (ms === null) return "";
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${trimmed(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function memory(mb: number | null): string {
  if (mb === null) return "";
  return mb >= 1024 ? `${trimmed(mb / 1024)} GB` : `${Math.round(mb)} MB`;
}

function trimmed(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

/** Rows × columns, as far as they are known. */
export function shape(state: DataState): string {
  const rows = state.rowCount === null ? "" : count(state.rowCount);
  const columns = state.columns.length ? `${state.columns.length}` : "";
  return rows && columns ? `${rows} × ${columns}` : rows ? `${rows} rows` : columns ? `${columns} columns` : "";
}

export function moment(iso: string | null, now = new Date()): string {
  if (iso === null) return "";
  const when = new Date(iso);
  const clock = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (when.toDateString() === now.toDateString()) return `today ${clock}`;
  return `${when.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })}, ${clock}`;
}

export const RUN_WORDS: Record<RunState, string> = {
  NEW: "not started",
  RUNNING: "running",
  COMPLETED: "finished",
  FAILED: "failed",
  ABORTED: "stopped",
};

/** "12 of 340", or nothing when all are shown. */
export function shownOf(shown: number, total: number): string {
  return shown < total ? `${shown} of ${total}` : "";
}

export function folder(state: DataState): string {
  const path = state.name.slice(0, Math.max(0, state.name.length - state.label.length)).replace(/\/$/, "");
  return state.namespace === "file" ? path || "/" : `${state.namespace}${path ? `/${path}` : ""}`;
}

/** Milliseconds between two moments, as far as both are known. */
export function lapse(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}

const STEPS: readonly [number, Intl.RelativeTimeFormatUnit][] = [
  [86_400_000, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** "3 hr. ago", and the date for what is longer ago than a month. */
export function ago(iso: string, now = new Date()): string {
  const past = now.getTime() - Date.parse(iso);
  if (Math.abs(past) > 30 * 86_400_000) return moment(iso, now);
  const step = STEPS.find(([size]) => Math.abs(past) >= size);
  return step ? RELATIVE.format(-Math.floor(past / step[0]), step[1]) : "just now";
}

export function bytes(value: number): string {
  const step = [
    [1e9, "GB"],
    [1e6, "MB"],
    [1e3, "KB"],
  ].find(([size]) => value >= Number(size));
  return step ? `${trimmed(value / Number(step[0]))} ${step[1]}` : `${value} B`;
}

export function plural(value: number, word: string): string {
  return `${value.toLocaleString("en")} ${word}${value === 1 ? "" : "s"}`;
}
