/** Building blocks of the facet renderers. */

import type { ReactNode } from "react";
import { EmptyState } from "../components/Panel";
import { ShareBar } from "../components/ShareBar";
import { formatCount, nodeLabel } from "../format";
import styles from "./facets.module.css";
import { asObject, asText, type JsonObject, withoutMetadata } from "./values";

export interface Props {
  facet: JsonObject;
}

/** Names and values; missing values are omitted. */
export function Facts({ items }: { items: readonly (readonly [string, ReactNode])[] }) {
  const present = items.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  if (present.length === 0) return <EmptyState>Empty</EmptyState>;
  return (
    <dl className={styles.facts}>
      {present.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? <bdi>{value}</bdi> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The fields of a facet as facts. */
export function fieldFacts(facet: JsonObject): [string, ReactNode][] {
  return Object.entries(withoutMetadata(facet)).map(([name, value]) => [splitName(name), linkify(asText(value))]);
}

/** `nullCount` is "null count". */
function splitName(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase();
}

/** A text, as a link if it is a web address. */
export function linkify(value: string): ReactNode {
  return /^https?:\/\/\S+$/.test(value) ? (
    <a href={value} rel="noreferrer">
      {value}
    </a>
  ) : (
    value
  );
}

export function Share({ value, total, tone }: { value: number; total: number; tone?: "good" | "bad" }) {
  const share = total > 0 ? Math.min(1, value / total) : 0;
  return (
    <ShareBar share={share} tone={tone}>
      {formatCount(value)} · {(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %
    </ShareBar>
  );
}

export function qualifiedName(value: unknown): string {
  const { namespace, name } = asObject(value);
  return nodeLabel({ namespace: asText(namespace), name: asText(name) });
}
