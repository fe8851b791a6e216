import type { ReactNode } from "react";
import styles from "./Card.module.css";

interface Props {
  height: number;
  isCentre?: boolean;
  isHighlighted: boolean;
  isFailed: boolean;
  children: ReactNode;
}

/** A job, or a cell of a notebook, in a graph. */
export function JobNode({ height, isCentre = false, isHighlighted, isFailed, children }: Props) {
  return (
    <article
      className={`${styles.card} ${styles.node} ${styles.job}`}
      data-centre={isCentre || undefined}
      data-highlight={isHighlighted || undefined}
      data-state={isFailed ? "failed" : undefined}
      data-testid="card"
      style={{ height }}
    >
      {children}
    </article>
  );
}
