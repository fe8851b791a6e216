import type { ReactNode } from "react";
import styles from "./SidePanel.module.css";

/** The column beside a graph with the lineage of the active column. */
export function SidePanel({ children }: { children: ReactNode }) {
  return (
    <aside className={styles.panel} aria-label="Column lineage" tabIndex={0}>
      {children}
    </aside>
  );
}
