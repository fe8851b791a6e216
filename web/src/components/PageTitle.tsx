import type { ReactNode } from "react";
import type { EntityName } from "../api/types";
import { nodeLabel } from "../format";
import { TimeAgo } from "./badges";
import layout from "./layout.module.css";
import styles from "./PageTitle.module.css";

interface Props {
  kind?: string;
  name: string;
  fullName?: EntityName;
  facts?: readonly string[];
  at?: string | null;
  badge?: ReactNode;
  /** Buttons and links on the right. */
  children?: ReactNode;
}

/** The subject of a page and a line of facts about it. */
export function PageTitle({ kind, name, fullName, facts = [], at = null, badge, children }: Props) {
  return (
    <div className={styles.title}>
      <div className={styles.text}>
        <h1>
          {kind && <small>{kind}</small>} <bdi title={name}>{name}</bdi> {badge}
        </h1>
        <p className={layout.facts}>
          {fullName && (
            <bdi className={styles.fullName} title={nodeLabel(fullName)}>
              {nodeLabel(fullName)}
            </bdi>
          )}
          {facts.map((fact) => (
            <span key={fact}>{fact}</span>
          ))}
          {at && (
            <span>
              last seen <TimeAgo at={at} />
            </span>
          )}
        </p>
      </div>
      <div className={styles.actions}>{children}</div>
    </div>
  );
}
