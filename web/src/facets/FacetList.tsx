import { Component, type ReactNode, useState } from "react";
import controls from "../components/controls.module.css";
import { JsonTree } from "../components/JsonTree";
import { Heading } from "../components/Panel";
import { FacetHistory } from "./FacetHistory";
import styles from "./facets.module.css";
import { RENDERERS } from "./renderers";
import { asObject, asText, withoutMetadata } from "./values";

interface ListProps {
  facets: Record<string, unknown>;
  title?: string;
  exclude?: readonly string[];
  /** Id of the owner, as `dataset:namespace:name`: with it, each facet has a history. */
  node?: string;
}

/** All facets of an entity: standard facets by their renderer, others as a JSON tree. */
export function FacetList({ facets, title = "Facets", exclude = [], node }: ListProps) {
  const names = Object.keys(facets).filter((name) => !exclude.includes(name));
  if (names.length === 0) return null;
  const standard = names.filter((name) => name in RENDERERS);
  const custom = names.filter((name) => !(name in RENDERERS));
  return (
    <section className={styles.list} aria-label={title}>
      <Heading total={names.length}>{title}</Heading>
      {[...standard, ...custom].map((name) => (
        <FacetCard key={name} name={name} facet={facets[name]} node={node} />
      ))}
    </section>
  );
}

interface DetailsProps {
  title: string;
  facets: Record<string, unknown>;
  isOpen?: boolean;
}

/** A list of facets that can be collapsed. */
export function FacetDetails({ title, facets, isOpen = false }: DetailsProps) {
  if (Object.keys(facets).length === 0) return null;
  return (
    <details className={styles.details} open={isOpen}>
      <summary>{title}</summary>
      <FacetList facets={facets} />
    </details>
  );
}

type Mode = "rendered" | "json" | "history";

export function FacetCard({ name, facet, node }: { name: string; facet: unknown; node?: string | undefined }) {
  const [mode, setMode] = useState<Mode>("rendered");
  const renderer = RENDERERS[name];
  const producer = asText(asObject(facet)._producer);
  const toggle = (to: Mode) => setMode(mode === to ? "rendered" : to);
  return (
    <article className={styles.facet} data-testid="facet">
      <header>
        <h3>{renderer?.title ?? name}</h3>
        {renderer && <code>{name}</code>}
        {producer && (
          <small title={producer}>
            by <bdi>{producer.replace(/^https?:\/\//, "")}</bdi>
          </small>
        )}
        <span className={styles.modes}>
          {node && (
            <button
              type="button"
              className={controls.quiet}
              aria-pressed={mode === "history"}
              aria-label={`History of ${name}`}
              onClick={() => toggle("history")}
            >
              History
            </button>
          )}
          {renderer && (
            <button
              type="button"
              className={controls.quiet}
              aria-pressed={mode === "json"}
              aria-label={`JSON of ${name}`}
              onClick={() => toggle("json")}
            >
              JSON
            </button>
          )}
        </span>
      </header>
      {mode === "rendered" && <FacetBody name={name} facet={facet} />}
      {mode === "json" && <JsonTree value={facet} />}
      {mode === "history" && node && (
        <FacetHistory node={node} name={name} renderBody={(version) => <FacetBody name={name} facet={version} />} />
      )}
    </article>
  );
}

function FacetBody({ name, facet }: { name: string; facet: unknown }) {
  const renderer = RENDERERS[name];
  const tree = (
    <JsonTree value={typeof facet === "object" && facet !== null ? withoutMetadata(asObject(facet)) : facet} />
  );
  if (!renderer) return tree;
  return (
    <ErrorBoundary fallback={tree}>
      <renderer.Body facet={asObject(facet)} />
    </ErrorBoundary>
  );
}

/** A malformed facet is shown as a JSON tree. */
class ErrorBoundary extends Component<{ fallback: ReactNode; children: ReactNode }, { hasFailed: boolean }> {
  override state = { hasFailed: false };

  static getDerivedStateFromError() {
    return { hasFailed: true };
  }

  override render() {
    return this.state.hasFailed ? this.props.fallback : this.props.children;
  }
}
