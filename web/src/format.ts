/** Numbers, sizes and times as text. */

import type { PageState, RunState } from "./api/types";

const UNITS: readonly [number, string][] = [
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

export function formatCount(value: number): string {
  for (const [size, unit] of UNITS) {
    if (value >= size) return `${formatDecimal(value / size)}${unit}`;
  }
  return `${value}`;
}

export function formatDuration(ms: number | null): string {
  if (ms === null) return "";
  if (ms < 1) return "< 1 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${formatDecimal(ms / 1000)} s`;
  const minutes = Math.floor(ms / 60_000);
  return minutes < 60
    ? `${minutes} min ${Math.round((ms % 60_000) / 1000)} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function formatMemory(mb: number | null): string {
  if (mb === null) return "";
  return mb >= 1024 ? `${formatDecimal(mb / 1024)} GB` : `${Math.round(mb)} MB`;
}

function formatDecimal(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toFixed(1).replace(/\.0$/, "");
}

/** Rows × columns, or the one of them that is known. */
export function formatShape(state: PageState): string {
  const rows = state.rowCount === null ? "" : formatCount(state.rowCount);
  const columns = state.columns.length ? `${state.columns.length}` : "";
  return rows && columns ? `${rows} × ${columns}` : rows ? `${rows} rows` : columns ? `${columns} columns` : "";
}

export function formatDate(iso: string | null, now = new Date()): string {
  if (iso === null) return "";
  const date = new Date(iso);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (date.toDateString() === now.toDateString()) return `today ${time}`;
  return `${date.toLocaleDateString([], { day: "numeric", month: "short", year: "numeric" })}, ${time}`;
}

export const RUN_STATE_LABELS: Record<RunState, string> = {
  NEW: "not started",
  RUNNING: "running",
  COMPLETED: "completed",
  FAILED: "failed",
  ABORTED: "aborted",
};

/** "12 of 340", or an empty string if all are shown. */
export function countLabel(shown: number, total: number): string {
  return shown < total ? `${shown} of ${total}` : "";
}

export function folderOf(state: PageState): string {
  const path = state.name.slice(0, Math.max(0, state.name.length - state.label.length)).replace(/\/$/, "");
  return state.namespace === "file" ? path || "/" : `${state.namespace}${path ? `/${path}` : ""}`;
}

/** Milliseconds between two times; null if one of them is unknown. */
export function elapsedMs(from: string | null, to: string | null): number | null {
  return from === null || to === null ? null : Math.max(0, Date.parse(to) - Date.parse(from));
}

const DAY_MS = 86_400_000;
const STEPS: readonly [number, Intl.RelativeTimeFormatUnit][] = [
  [DAY_MS, "day"],
  [3_600_000, "hour"],
  [60_000, "minute"],
];
const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

/** "3 hr. ago", or the date if that is more than a month ago. */
export function timeAgo(iso: string, now = new Date()): string {
  const elapsed = now.getTime() - Date.parse(iso);
  if (Math.abs(elapsed) > 30 * DAY_MS) return formatDate(iso, now);
  const step = STEPS.find(([size]) => Math.abs(elapsed) >= size);
  return step ? RELATIVE.format(-Math.floor(elapsed / step[0]), step[1]) : "just now";
}

const BYTE_UNITS: readonly [number, string][] = [
  [1e9, "GB"],
  [1e6, "MB"],
  [1e3, "KB"],
];

export function formatBytes(value: number): string {
  const unit = BYTE_UNITS.find(([size]) => value >= size);
  return unit ? `${formatDecimal(value / unit[0])} ${unit[1]}` : `${value} B`;
}

export function pluralize(value: number, noun: string): string {
  return `${value.toLocaleString("en")} ${noun}${value === 1 ? "" : "s"}`;
}

/** An OpenLineage constant as text: `GROUP_BY` is "group by". */
export function formatConstant(value: string): string {
  return value.toLowerCase().replaceAll("_", " ");
}

/** The last segment of a path-like name. */
export function baseName(name: string): string {
  return name.replace(/\/+$/, "").split("/").at(-1) || name;
}

/** Namespace and name of a node as text; an empty part is left out. */
export function nodeLabel({ namespace, name }: { namespace: string; name: string }): string {
  return [namespace, name].filter(Boolean).join(" · ") || "unnamed";
}
