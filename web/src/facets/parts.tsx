/** What the renderers of facets are put together from. */

import { type ReactNode, useState } from "react";
import { count, shownOf } from "../words";
import { own, type Record_, record, text } from "./values";

export interface Props {
  facet: Record_;
}

/** Names and values; values that are missing are left out. */
export function Facts({ of }: { of: readonly (readonly [string, ReactNode])[] }) {
  const known = of.filter(([, value]) => value !== "" && value !== null && value !== undefined);
  if (known.length === 0) return <p className="empty">It says nothing.</p>;
  return (
    <dl className="facts-list">
      {known.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{typeof value === "string" ? <bdi>{value}</bdi> : value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** All plain values of a facet under their own names, for facets that are just that. */
export function plainFacts(facet: Record_): [string, ReactNode][] {
  return Object.entries(own(facet)).map(([name, value]) => [spaced(name), linked(text(value))]);
}

export function spaced(name: string): string {
  return name
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll("_", " ")
    .toLowerCase();
}

/** A text, as a link where it is a web address. */
export function linked(value: string): ReactNode {
  return /^https?:\/\/\S+$/.test(value) ? (
    <a href={value} rel="noreferrer">
      {value}
    </a>
  ) : (
    value
  );
}

const MOST = 100;

export function Heads({ names }: { names: readonly string[] }) {
  return (
    <thead>
      <tr>
        {names.map((name) => (
          <th key={name} scope="col">
            {name}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** Rows of cells; a long list is cut and says so. */
export function Grid({ heads, rows }: { heads: readonly string[]; rows: readonly (readonly ReactNode[])[] }) {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? rows : rows.slice(0, MOST);
  const cut = shownOf(shown.length, rows.length);
  return (
    <>
      <table className="grid">
        <Heads names={heads} />
        <tbody>
          {shown.map((row, i) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows keep their order
            <tr key={i}>
              {row.map((cell, j) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: as above
                <td key={j}>{typeof cell === "string" ? <bdi>{cell}</bdi> : cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {cut && (
        <button type="button" className="quiet" onClick={() => setWhole(true)}>
          {cut}: show all
        </button>
      )}
    </>
  );
}

/** A share of a whole as a bar; the number stands beside it. */
export function Share({ value, of, tone }: { value: number; of: number; tone?: "good" | "bad" }) {
  const share = of > 0 ? Math.min(1, value / of) : 0;
  return (
    <span className="share" data-tone={tone}>
      <i style={{ inlineSize: `${share * 100}%` }} />
      <span>
        {count(value)} · {(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %
      </span>
    </span>
  );
}

export function nameOf(value: unknown): string {
  const { namespace, name } = record(value);
  return [text(namespace), text(name)].filter(Boolean).join(" · ");
}
