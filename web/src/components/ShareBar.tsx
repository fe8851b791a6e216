import type { ReactNode } from "react";
import styles from "./ShareBar.module.css";

interface Props {
  /** Between 0 and 1. */
  share: number;
  tone?: "good" | "bad" | undefined;
  children: ReactNode;
}

/** A share of a whole as a bar behind its label. */
export function ShareBar({ share, tone, children }: Props) {
  return (
    <span className={styles.bar} data-tone={tone}>
      <i style={{ inlineSize: `${share * 100}%` }} />
      <span>{children}</span>
    </span>
  );
}
