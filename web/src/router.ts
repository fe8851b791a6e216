/** URLs of the web UI. The route is in the hash, so that an exported page works as a file on disk. */

import { useEffect, useMemo, useState } from "react";
import type { EntityName, NodeKind } from "./api/types";

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
] as const;

export type View = (typeof VIEWS)[number];

export interface Route {
  /** Null if the URL names no existing view. */
  view: View | null;
  id: string | null;
  params: URLSearchParams;
}

export type Params = Record<string, string | readonly string[] | null | undefined>;

export function parseRoute(hash: string): Route {
  const [, path = "", query = ""] = /^#?([^?]*)\??(.*)$/s.exec(hash) ?? [];
  const [first, ...rest] = path.split("/").filter(Boolean).map(decode);
  const params = new URLSearchParams(query);
  const view = first === undefined ? "run" : (VIEWS.find((name) => name === first) ?? null);
  return (view && expandPath(view, rest, params)) ?? { view, id: rest[0] ?? null, params };
}

/** Resolve URLs that people type: `datasets/NAMESPACE/NAME`, `datasets/TEXT`, `runs/ID`; the same for jobs. */
function expandPath(view: View, rest: readonly string[], params: URLSearchParams): Route | null {
  if (rest.length === 0) return null;
  if (view === "runs") return { view: "job-run", id: rest[0] ?? null, params };
  const detail =
    view === "datasets" || view === "dataset" ? "dataset" : view === "jobs" || view === "job" ? "job" : null;
  if (detail === null) return null;
  const [namespace = "", name] = rest;
  if (name === undefined || rest.length > 2) {
    params.set("text", rest.at(-1) ?? "");
    return { view: `${detail}s`, id: null, params };
  }
  params.set("namespace", namespace);
  params.set("name", name);
  return { view: detail, id: null, params };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The URL of a view; empty parameters are omitted. */
export function urlFor(view: View, params: Params = {}, id?: string | null): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    for (const item of typeof value === "string" ? [value] : (value ?? [])) if (item !== "") query.append(name, item);
  }
  return `#/${view}${id ? `/${encodeURIComponent(id)}` : ""}${query.size ? `?${query}` : ""}`;
}

export function datasetUrl({ namespace, name }: EntityName): string {
  return urlFor("dataset", { namespace, name });
}

export function jobUrl({ namespace, name }: EntityName): string {
  return urlFor("job", { namespace, name });
}

export function runUrl(run: { runUuid: string; sessionId: string | null; isChild: boolean }): string {
  // The run of a notebook has a page with its cells; the runs of its operations have the page of any other run.
  return run.sessionId !== null && !run.isChild ? urlFor("run", {}, run.sessionId) : urlFor("job-run", {}, run.runUuid);
}

export function nodeId(kind: NodeKind, { namespace, name }: EntityName): string {
  return `${kind}/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

export function lineageUrl(kind: NodeKind, name: EntityName, column?: string): string {
  return urlFor("lineage", { node: nodeId(kind, name), column });
}

export function navigate(url: string): void {
  location.hash = url;
}

/** The URL of the current view with some parameters changed. */
export function urlWith(route: Route, params: Params, view: View = route.view ?? "run"): string {
  const all: Record<string, string | readonly string[] | null | undefined> = {};
  for (const name of route.params.keys()) all[name] = route.params.getAll(name);
  return urlFor(view, { ...all, ...params }, route.id);
}

/** Change some parameters of the current view. */
export function updateQuery(params: Params): void {
  navigate(urlWith(parseRoute(location.hash), params));
}

export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const update = () => setHash(location.hash);
    addEventListener("hashchange", update);
    return () => removeEventListener("hashchange", update);
  }, []);
  return useMemo(() => parseRoute(hash), [hash]);
}
