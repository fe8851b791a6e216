import { type ReactNode, useEffect, useState } from "react";
import { fetched, LoadError, type Problem } from "../source";

export type Loading<T> = { kind: "loading" } | { kind: "value"; value: T } | { kind: "problem"; problem: Problem };

/** A document of the server's. While another one is on its way the last one stays, so that nothing flickers. */
export function useFetched<T>(path: string | null): Loading<T> {
  const [loading, setLoading] = useState<Loading<T>>({ kind: "loading" });
  useEffect(() => {
    if (path === null) return;
    const stop = new AbortController();
    fetched<T>(path, stop.signal).then(
      (value) => setLoading({ kind: "value", value }),
      (error: unknown) => {
        if (!stop.signal.aborted) setLoading({ kind: "problem", problem: problemFrom(error) });
      },
    );
    return () => stop.abort();
  }, [path]);
  return loading;
}

export function problemFrom(error: unknown): Problem {
  if (error instanceof LoadError) return error.problem;
  return { title: "This could not be read.", detail: error instanceof Error ? error.message : String(error) };
}

interface LoadedProps<T> {
  of: Loading<T>;
  /** Part of a page: a line says that it is on its way. */
  isPart?: boolean;
  children: (value: T) => ReactNode;
}

export function Loaded<T>({ of, isPart = false, children }: LoadedProps<T>) {
  if (of.kind === "loading") return isPart ? <p className="empty">Loading …</p> : <Skeleton />;
  if (of.kind === "problem") return <ProblemNote problem={of.problem} />;
  return children(of.value);
}

export function Skeleton({ name = "Loading" }: { name?: string }) {
  return (
    <div className="skeleton" role="status" aria-label={name}>
      <i className="strip" />
      <div>
        <i />
        <i className="tall" />
        <i />
      </div>
    </div>
  );
}

export function ProblemNote({ problem }: { problem: Problem }) {
  return (
    <section className="problem" role="alert">
      <h1>{problem.title}</h1>
      <p>{problem.detail}</p>
    </section>
  );
}
