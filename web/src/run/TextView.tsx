import { useMemo } from "react";
import type { ExplanationStep } from "../api/types";
import { CopyButton } from "../components/CopyButton";
import text from "../components/TextBlock.module.css";
import styles from "../graph/HopList.module.css";
import {
  explanationFor,
  hopLabel,
  hopLocation,
  phraseFor,
  transformationLabel,
  treeText,
} from "../selection/explanation";
import { useRun } from "./runContext";

/** The explanation of the selected column as a nested list: for screen readers, searching and copying. */
export function TextView() {
  const { page, index, selected } = useRun();
  const explanation = useMemo(() => selected && explanationFor(page, index, selected), [page, index, selected]);
  if (!explanation) return null;
  return (
    <section className={text.block} aria-label="Explanation as text">
      <CopyButton text={treeText(page, explanation.tree)} />
      <HopChain hop={explanation.tree} />
    </section>
  );
}

/** A chain of hops as one list, nested only where a column has several sources. */
export function HopChain({ hop, isRoot = true }: { hop: ExplanationStep; isRoot?: boolean }) {
  const chain = chainOf(hop);
  const branches = chain.at(-1)?.upstream?.filter((next) => next.type === "DIRECT") ?? [];
  return (
    <ul className={`${styles.list} ${isRoot ? styles.root : ""}`}>
      {chain.map((link, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the order of hops is fixed
        <li key={i}>
          <HopLine hop={link} />
        </li>
      ))}
      {branches.map((branch, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: as above
        <li key={`branch ${i}`} className={styles.branch}>
          <HopChain hop={branch} isRoot={false} />
        </li>
      ))}
    </ul>
  );
}

function chainOf(hop: ExplanationStep): ExplanationStep[] {
  const chain = [hop];
  for (let next = onlySource(hop); next; next = onlySource(next)) chain.push(next);
  return chain;
}

function onlySource(hop: ExplanationStep): ExplanationStep | null {
  const direct = (hop.upstream ?? []).filter((next) => next.type === "DIRECT");
  return direct.length === 1 ? (direct[0] ?? null) : null;
}

function HopLine({ hop }: { hop: ExplanationStep }) {
  const { page } = useRun();
  const indirect = (hop.upstream ?? []).filter((next) => next.type === "INDIRECT");
  return (
    <>
      <div className={styles.hop}>
        <b>
          <bdi>{hopLabel(hop)}</bdi>
        </b>
        {hop.type && <span className={styles.detail}>{transformationLabel(hop)}</span>}
        {hop.cell !== undefined && <span className={styles.detail}>{hopLocation(page, hop)}</span>}
        {hop.isRepeated && <span className={styles.detail}>see above</span>}
        {hop.code && <code title={hop.code}>{hop.code}</code>}
      </div>
      {indirect.map((next) => (
        <div
          className={`${styles.hop} ${styles.indirect}`}
          key={`${hopLabel(next)} ${next.cell} ${next.line} ${next.subtype}`}
        >
          <span>
            {phraseFor(next)} <bdi>{hopLabel(next)}</bdi>
          </span>
          <span className={styles.detail}>
            {[hopLocation(page, next), next.flag && "inferred"].filter(Boolean).join(", ")}
          </span>
        </div>
      ))}
    </>
  );
}
