/** Where the page's document comes from: the page itself, or the server that sent it. */

import type { RunPage, RunSummary } from "./page";

export interface Problem {
  title: string;
  detail: string;
}

export class LoadError extends Error {
  constructor(
    readonly status: number,
    readonly problem: Problem,
  ) {
    super(problem.title);
  }
}

export function embeddedPage(from: Document = document): RunPage | null {
  const text = from.getElementById("clew-data")?.textContent;
  return text ? (JSON.parse(text) as RunPage) : null;
}

export function fetchRun(session: string | null, signal: AbortSignal): Promise<RunPage> {
  return fetched<RunPage>(`api/v2/notebook-runs/${session === null ? "latest" : encodeURIComponent(session)}`, signal);
}

export async function fetchRuns(signal: AbortSignal): Promise<{ runs: RunSummary[]; total: number }> {
  return fetched("api/v2/notebook-runs", signal);
}

export async function fetched<T>(path: string, signal: AbortSignal): Promise<T> {
  const response = await fetch(path, { signal, headers: { accept: "application/json" } }).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new LoadError(0, {
      title: "The server does not answer.",
      detail: "It may have been stopped. Start it again with `clew serve`, then reload this page.",
    });
  });
  if (!response.ok) throw new LoadError(response.status, await problemOf(response));
  return (await response.json()) as T;
}

async function problemOf(response: Response): Promise<Problem> {
  try {
    const { title, detail } = (await response.json()) as Partial<Problem>;
    return { title: title ?? `The server answered ${response.status}.`, detail: detail ?? "" };
  } catch {
    return { title: `The server answered ${response.status}.`, detail: response.statusText };
  }
}
