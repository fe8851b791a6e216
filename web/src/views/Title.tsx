import type { ReactNode } from "react";
import type { Name } from "../documents";
import { Ago } from "../parts/marks";

interface Props {
  kind?: string;
  name: string;
  whole?: Name;
  facts?: readonly string[];
  at?: string | null;
  mark?: ReactNode;
  children?: ReactNode;
}

/** What a page is about, in two lines. */
export function Title({ kind, name, whole, facts = [], at = null, mark, children }: Props) {
  return (
    <div className="title">
      <div>
        <h1>
          {kind && <small>{kind}</small>} <bdi title={name}>{name}</bdi> {mark}
        </h1>
        <p className="facts">
          {whole && (
            <bdi className="whole" title={`${whole.namespace} ${whole.name}`}>
              {whole.namespace} · {whole.name}
            </bdi>
          )}
          {facts.map((fact) => (
            <span key={fact}>{fact}</span>
          ))}
          {at && (
            <span>
              last seen <Ago at={at} />
            </span>
          )}
        </p>
      </div>
      <div className="actions">{children}</div>
    </div>
  );
}
