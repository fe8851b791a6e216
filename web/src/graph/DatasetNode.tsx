import type { CSSProperties, ReactNode } from "react";
import type { CardMetrics } from "../api/types";
import styles from "./Card.module.css";
import { ColumnButton } from "./ColumnButton";

interface Props {
  /** Index of the dataset in its document. */
  state: number;
  head: ReactNode;
  columns: readonly { name: string; type?: string | null }[];
  card: CardMetrics;
  height: number;
  isCentre?: boolean;
  isHighlighted: boolean;
  children: ReactNode;
}

/** A dataset in a graph: a head and a row for each visible column. */
export function DatasetNode({ state, head, columns, card, height, isCentre = false, isHighlighted, children }: Props) {
  const style = { "--card-head": `${card.head}px`, "--row": `${card.row}px`, height } as CSSProperties;
  return (
    <article
      className={`${styles.card} ${styles.node}`}
      data-centre={isCentre || undefined}
      data-highlight={isHighlighted || undefined}
      data-testid="card"
      style={style}
    >
      {head}
      {columns.map(({ name, type = null }) => (
        <ColumnButton key={name} className={styles.column} state={state} column={name} type={type} />
      ))}
      {children}
    </article>
  );
}
