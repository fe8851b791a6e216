/** Access to the JSON documents: fetched from the server, or embedded in an exported page. */

import { useEffect, useState } from "react";
import { requireLogin } from "./login";
import type { NotebookRunList, RunPage } from "./types";

export interface Problem {
  title: string;
  detail: string;
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.title);
  }
}

export type AsyncState<T> = { kind: "loading" } | { kind: "success"; value: T } | { kind: "error"; problem: Problem };

/** The run of an exported page, null on a served one. */
export function embeddedPage(from: Document = document): RunPage | null {
  const text = from.getElementById("clew-data")?.textContent;
  return text ? (JSON.parse(text) as RunPage) : null;
}

export function fetchRun(session: string | null, signal: AbortSignal): Promise<RunPage> {
  return fetchJson(`api/v2/notebook-runs/${session === null ? "latest" : encodeURIComponent(session)}`, signal);
}

export function fetchRuns(signal: AbortSignal): Promise<NotebookRunList> {
  return fetchJson("api/v2/notebook-runs", signal);
}

export async function fetchJson<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, headers: { accept: "application/json" } }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new ApiError(0, {
      title: "The server is not responding.",
      detail: "It may have been stopped. Start it again with `clew serve`, then reload this page.",
    });
  });
  if (response.status === 401) requireLogin();
  if (!response.ok) throw new ApiError(response.status, await readProblem(response));
  return (await response.json()) as T;
}

async function readProblem(response: Response): Promise<Problem> {
  const title = `The server responded with status ${response.status}.`;
  try {
    const problem = (await response.json()) as Partial<Problem>;
    return { title: problem.title ?? title, detail: problem.detail ?? "" };
  } catch {
    return { title, detail: response.statusText };
  }
}

export function problemFrom(error: unknown): Problem {
  if (error instanceof ApiError) return error.problem;
  return { title: "Unexpected response.", detail: error instanceof Error ? error.message : String(error) };
}

/** Fetch a document. While another path loads, the previous value stays, so that the page does not flicker. */
export function useApi<T>(path: string | null): AsyncState<T> {
  const [state, setState] = useState<AsyncState<T>>({ kind: "loading" });
  useEffect(() => {
    if (path === null) return;
    const controller = new AbortController();
    fetchJson<T>(path, controller.signal).then(
      (value) => setState({ kind: "success", value }),
      (error: unknown) => {
        if (!controller.signal.aborted) setState({ kind: "error", problem: problemFrom(error) });
      },
    );
    return () => controller.abort();
  }, [path]);
  return state;
}

/** Item `i` of a list that a document refers to by index. */
export function itemAt<T>(items: readonly T[], i: number): T {
  const item = items[i];
  if (item === undefined) throw new RangeError(`The document refers to item ${i} of a list of ${items.length}.`);
  return item;
}
