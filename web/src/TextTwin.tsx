import { useMemo, useState } from "react";
import { answerFor, hopName, hopPlace, hopWay, treeText, verbOf } from "./answer";
import { useFollowed } from "./follow";
import type { AnswerHop } from "./page";

/** The same answer as a nested list: to read aloud, to search, to copy. */
export function TextTwin() {
  const { page, lineage, pinned } = useFollowed();
  const answer = useMemo(() => pinned && answerFor(page, lineage, pinned), [page, lineage, pinned]);
  if (!answer) return null;
  return (
    <section className="twin" aria-label="The answer as text">
      <CopyButton text={treeText(page, answer.tree)} />
      <HopChain hop={answer.tree} />
    </section>
  );
}

/** A chain of hops as one list; it goes deeper only where a column has several sources. */
export function HopChain({ hop }: { hop: AnswerHop }) {
  const chain = chainOf(hop);
  const branches = chain.at(-1)?.upstream?.filter((next) => next.type === "DIRECT") ?? [];
  return (
    <ul>
      {chain.map((link, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: an answer never changes its order
        <li key={i}>
          <HopLine hop={link} />
        </li>
      ))}
      {branches.map((branch, i) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: as above
        <li key={`branch ${i}`} className="branch">
          <HopChain hop={branch} />
        </li>
      ))}
    </ul>
  );
}

function chainOf(hop: AnswerHop): AnswerHop[] {
  const chain = [hop];
  for (let next = onlySource(hop); next; next = onlySource(next)) chain.push(next);
  return chain;
}

function onlySource(hop: AnswerHop): AnswerHop | null {
  const direct = (hop.upstream ?? []).filter((next) => next.type === "DIRECT");
  return direct.length === 1 ? (direct[0] ?? null) : null;
}

function HopLine({ hop }: { hop: AnswerHop }) {
  const { page } = useFollowed();
  const swaying = (hop.upstream ?? []).filter((next) => next.type === "INDIRECT");
  return (
    <>
      <div className="hop" data-flag={hop.flag}>
        <b>
          <bdi>{hopName(hop)}</bdi>
        </b>
        {hop.type && <span className="way">{hopWay(hop)}</span>}
        {hop.cell !== undefined && <span className="place">{hopPlace(page, hop)}</span>}
        {hop.isRepeated && <span className="place">goes on as above</span>}
        {hop.code && <code title={hop.code}>{hop.code}</code>}
      </div>
      {swaying.map((next) => (
        <div
          className="hop sway"
          key={`${hopName(next)} ${next.cell} ${next.line} ${next.subtype}`}
          data-flag={next.flag}
        >
          <span>
            {verbOf(next)} <bdi>{hopName(next)}</bdi>
          </span>
          <span className="place">{[hopPlace(page, next), next.flag && "guessed"].filter(Boolean).join(", ")}</span>
        </div>
      ))}
    </>
  );
}

function CopyButton({ text }: { text: string }) {
  const [said, setSaid] = useState("copy");
  const copy = () => {
    navigator.clipboard.writeText(text).then(
      () => setSaid("copied"),
      () => setSaid("select and copy by hand"),
    );
  };
  return (
    <button type="button" className="quiet" onClick={copy}>
      {said}
    </button>
  );
}
