import type { ReactNode } from "react";
import type { AsyncState, Problem } from "../api/client";
import styles from "./AsyncContent.module.css";
import layout from "./layout.module.css";

interface Props<T> {
  state: AsyncState<T>;
  /** Inside a page: loading is shown as a line of text. */
  isInline?: boolean;
  children: (value: T) => ReactNode;
}

/** A document when it is loaded, a placeholder before, or the error. */
export function AsyncContent<T>({ state, isInline = false, children }: Props<T>) {
  if (state.kind === "loading") return isInline ? <p className={layout.empty}>Loading…</p> : <Skeleton />;
  if (state.kind === "error") return <ProblemMessage problem={state.problem} />;
  return children(state.value);
}

export function Skeleton({ label = "Loading" }: { label?: string }) {
  return (
    <div className={styles.skeleton} role="status" aria-busy="true" aria-label={label}>
      <i className={styles.strip} />
      <div>
        <i />
        <i className={styles.tall} />
        <i />
      </div>
    </div>
  );
}

export function ProblemMessage({ problem }: { problem: Problem }) {
  return (
    <section className={styles.problem} role="alert">
      <h1>{problem.title}</h1>
      <p>{problem.detail}</p>
    </section>
  );
}

/** A message in place of a page's content. */
export function EmptyPage({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className={styles.problem}>
      <h1>{title}</h1>
      <p>{children}</p>
    </section>
  );
}
