import { Component, type ReactNode, useState } from "react";
import type { Facets } from "../documents";
import { Heading } from "../parts/marks";
import { Tree } from "../parts/Tree";
import { RENDERERS } from "./renderers";
import { own, record, text } from "./values";

/** All facets of an entity: each standard one in its own way, any other as a tree. */
export function FacetList({ facets, leaveOut = [] }: { facets: Facets; leaveOut?: readonly string[] }) {
  const names = Object.keys(facets).filter((name) => !leaveOut.includes(name));
  if (names.length === 0) return null;
  const known = names.filter((name) => name in RENDERERS);
  const others = names.filter((name) => !(name in RENDERERS));
  return (
    <section className="facets" aria-label="Facets">
      <Heading total={names.length}>Facets</Heading>
      {[...known, ...others].map((name) => (
        <FacetCard key={name} name={name} facet={facets[name]} />
      ))}
    </section>
  );
}

export function FacetCard({ name, facet }: { name: string; facet: unknown }) {
  const [isRaw, setRaw] = useState(false);
  const known = RENDERERS[name];
  const producer = text(record(facet)._producer);
  const tree = <Tree value={typeof facet === "object" && facet !== null && !isRaw ? own(record(facet)) : facet} />;
  return (
    <article className="facet">
      <header>
        <h3>{known?.title ?? name}</h3>
        {known && <code>{name}</code>}
        {producer && (
          <small title={producer}>
            by <bdi>{producer.replace(/^https?:\/\//, "")}</bdi>
          </small>
        )}
        {known && (
          <button
            type="button"
            className="quiet"
            aria-pressed={isRaw}
            aria-label={`${name} as JSON`}
            onClick={() => setRaw(!isRaw)}
          >
            JSON
          </button>
        )}
      </header>
      {known && !isRaw ? (
        <Guarded instead={tree}>
          <known.Body facet={record(facet)} />
        </Guarded>
      ) : (
        tree
      )}
    </article>
  );
}

/** A facet that is not what its name promises is shown as a tree. */
class Guarded extends Component<{ instead: ReactNode; children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    return this.state.hasFailed ? this.props.instead : this.props.children;
  }
}
