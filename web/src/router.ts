/** Every view is a URL. It stands after the `#`, so that the page works as a file on disk as well. */

import { useEffect, useMemo, useState } from "react";
import type { Name } from "./documents";

const VIEWS = [
  "run",
  "graph",
  "time",
  "lineage",
  "dataset",
  "datasets",
  "job",
  "jobs",
  "job-run",
  "runs",
  "diff",
  "events",
  "health",
  "search",
] as const;

export type View = (typeof VIEWS)[number];

export interface Place {
  /** Null where the URL names no view that there is. */
  view: View | null;
  rest: string | null;
  values: URLSearchParams;
}

export type Values = Record<string, string | readonly string[] | null | undefined>;

export function parsePlace(hash: string): Place {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const [first, rest] = path.split("/").filter(Boolean);
  const view = first === undefined ? "run" : (VIEWS.find((name) => name === first) ?? null);
  return { view, rest: rest === undefined ? null : decoded(rest), values: new URLSearchParams(query) };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The URL of a view; empty values are left out. */
export function href(view: View, values: Values = {}, rest?: string | null): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const one of typeof value === "string" ? [value] : (value ?? [])) if (one !== "") query.append(name, one);
  }
  return `#/${view}${rest ? `/${encodeURIComponent(rest)}` : ""}${query.size ? `?${query}` : ""}`;
}

export function datasetHref({ namespace, name }: Name): string {
  return href("dataset", { namespace, name });
}

export function jobHref({ namespace, name }: Name): string {
  return href("job", { namespace, name });
}

export function runHref(run: { runUuid: string; sessionId: string | null; job: Name | null }): string {
  // A notebook's own run has a page with its cells; the runs of its operations are like any other.
  const isNotebook = run.sessionId !== null && run.job !== null && !run.job.name.includes("/");
  return isNotebook ? href("run", {}, run.sessionId) : href("job-run", {}, run.runUuid);
}

export function nodeId(kind: "dataset" | "job", { namespace, name }: Name): string {
  return `${kind}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function lineageHref(kind: "dataset" | "job", name: Name, column?: string): string {
  return href("lineage", { node: nodeId(kind, name), column });
}

/** Change some values of the view that is shown. */
export function change(values: Values): void {
  const { view, rest, values: known } = parsePlace(location.hash);
  const all: Record<string, string | readonly string[] | null | undefined> = {};
  for (const name of known.keys()) all[name] = known.getAll(name);
  location.hash = href(view ?? "run", { ...all, ...values }, rest);
}

export function useHash(): string {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const follow = () => setHash(location.hash);
    addEventListener("hashchange", follow);
    return () => removeEventListener("hashchange", follow);
  }, []);
  return hash;
}

export function usePlace(): Place {
  const hash = useHash();
  return useMemo(() => parsePlace(hash), [hash]);
}
