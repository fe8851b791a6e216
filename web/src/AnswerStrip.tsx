import { Fragment, useMemo } from "react";
import { answerFor, reachOf } from "./answer";
import { useFollowed } from "./follow";
import { at, type SentencePart } from "./page";
import { go, type Route } from "./route";
import { shownOf } from "./words";

/** The answer in a sentence, for whichever column is followed. */
export function AnswerStrip({ route }: { route: Route }) {
  const { page, lineage, active } = useFollowed();
  const answer = useMemo(() => active && answerFor(page, lineage, active), [page, lineage, active]);
  const reach = useMemo(() => active && reachOf(page, lineage, active), [page, lineage, active]);
  const cut = shownOf(page.edges.length, page.edgeTotal);
  if (!answer) {
    return (
      <section className="answer" aria-label="Answer">
        <p className="said">{page.cells.length ? "No column of this run was traced." : "This run executed no cell."}</p>
      </section>
    );
  }
  const [target] = answer.sentence;
  const sources = answer.sentence.filter((part) => part.kind === "source");
  const codes = answer.sentence.filter((part) => part.kind === "code");
  const notes = answer.sentence.filter((part) => part.kind === "note");
  const influences = answer.sentence.filter((part) => part.kind === "influence");
  const ends = [
    reach?.makes.length ? `ends in ${reach.makes.join(", ")}` : "",
    reach?.sways.length ? `sways ${reach.sways.join(", ")}` : "",
  ];
  const besides = [...[...notes, ...influences].map((part) => part.text), ...ends].filter(Boolean);
  return (
    <section className="answer" aria-label="Answer">
      <p className="said" aria-live="polite">
        {target && <Part part={target} />}
        {sources.length > 0 && <Arrow />}
        {sources.map((part) => (
          <Part key={part.text} part={part} />
        ))}
      </p>
      <p className="by">
        {codes.map((part, i) => (
          <Fragment key={`${part.cell} ${part.line} ${part.text}`}>
            {i > 0 && <Arrow />}
            <Part part={part} />
          </Fragment>
        ))}
      </p>
      <p className="besides" title={besides.join("\n")}>
        {besides.join(" · ")}
        {cut && ` · the picture has ${cut} column edges`}
      </p>
      <button type="button" className="quiet" aria-pressed={route.asText} onClick={() => go({ asText: !route.asText })}>
        as text
      </button>
    </section>
  );
}

function Arrow() {
  return (
    <span className="arrow">
      <span aria-hidden="true">←</span>
      <span className="unseen"> from </span>
    </span>
  );
}

function Part({ part }: { part: SentencePart }) {
  const { page } = useFollowed();
  if (part.cell === undefined) {
    return (
      <bdi className={part.kind} title={part.text}>
        {part.text}
      </bdi>
    );
  }
  const cell = at(page.cells, part.cell);
  return (
    <button
      type="button"
      className={part.kind}
      title={`${part.text}\ncell ${cell.number}, ${cell.title}${part.line ? `, line ${part.line}` : ""}`}
      onClick={() => go({ open: `cell:${cell.executionId}` })}
    >
      <code>{part.text}</code> <small>cell {cell.number}</small>
    </button>
  );
}
