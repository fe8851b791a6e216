import { Component, type ReactNode, useState } from "react";
import type { Facets } from "../documents";
import { Heading } from "../parts/marks";
import { Tree } from "../parts/Tree";
import { FacetHistory } from "./FacetHistory";
import { RENDERERS } from "./renderers";
import { own, record, text } from "./values";

interface ListProps {
  facets: Facets;
  leaveOut?: readonly string[];
  /** Whose they are, as `dataset:namespace:name`: with it, each has a history. */
  node?: string;
}

/** All facets of an entity: each standard one in its own way, any other as a tree. */
export function FacetList({ facets, leaveOut = [], node }: ListProps) {
  const names = Object.keys(facets).filter((name) => !leaveOut.includes(name));
  if (names.length === 0) return null;
  const known = names.filter((name) => name in RENDERERS);
  const others = names.filter((name) => !(name in RENDERERS));
  return (
    <section className="facets" aria-label="Facets">
      <Heading total={names.length}>Facets</Heading>
      {[...known, ...others].map((name) => (
        <FacetCard key={name} name={name} facet={facets[name]} node={node} />
      ))}
    </section>
  );
}

type Showing = "rendered" | "json" | "history";

export function FacetCard({ name, facet, node }: { name: string; facet: unknown; node?: string | undefined }) {
  const [showing, show] = useState<Showing>("rendered");
  const known = RENDERERS[name];
  const producer = text(record(facet)._producer);
  const turn = (to: Showing) => show(showing === to ? "rendered" : to);
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
        <span className="turns">
          {node && (
            <button
              type="button"
              className="quiet"
              aria-pressed={showing === "history"}
              aria-label={`History of ${name}`}
              onClick={() => turn("history")}
            >
              History
            </button>
          )}
          {known && (
            <button
              type="button"
              className="quiet"
              aria-pressed={showing === "json"}
              aria-label={`JSON of ${name}`}
              onClick={() => turn("json")}
            >
              JSON
            </button>
          )}
        </span>
      </header>
      {showing === "rendered" && <FacetBody name={name} facet={facet} />}
      {showing === "json" && <Tree value={facet} />}
      {showing === "history" && node && (
        <FacetHistory node={node} name={name} body={(one) => <FacetBody name={name} facet={one} />} />
      )}
    </article>
  );
}

function FacetBody({ name, facet }: { name: string; facet: unknown }) {
  const known = RENDERERS[name];
  const tree = <Tree value={typeof facet === "object" && facet !== null ? own(record(facet)) : facet} />;
  if (!known) return tree;
  return (
    <Guarded instead={tree}>
      <known.Body facet={record(facet)} />
    </Guarded>
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
