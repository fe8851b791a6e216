import { Fragment, useMemo } from "react";
import { itemAt } from "../api/client";
import type { SentencePart } from "../api/types";
import controls from "../components/controls.module.css";
import { countLabel } from "../format";
import { updateQuery } from "../router";
import { explanationFor, impactOf } from "../selection/explanation";
import styles from "./ExplanationBar.module.css";
import { useRun } from "./runContext";

/** The explanation of the active column in one sentence. */
export function ExplanationBar({ isTextShown }: { isTextShown: boolean }) {
  const { page, index, active } = useRun();
  const explanation = useMemo(() => active && explanationFor(page, index, active), [page, index, active]);
  const impact = useMemo(() => active && impactOf(page, index, active), [page, index, active]);
  if (!explanation) {
    return (
      <section className={styles.bar} aria-label="Explanation">
        <p className={styles.sources}>
          {page.cells.length ? "No column lineage was recorded for this run." : "No cells were executed."}
        </p>
      </section>
    );
  }
  const [target] = explanation.sentence;
  const partsOf = (kind: SentencePart["kind"]) => explanation.sentence.filter((part) => part.kind === kind);
  const cut = countLabel(page.edges.length, page.edgeTotal);
  const notes = [
    ...[...partsOf("summary"), ...partsOf("indirect")].map((part) => part.text),
    impact?.direct.length ? `written to ${impact.direct.join(", ")}` : "",
    impact?.indirect.length ? `indirectly affects ${impact.indirect.join(", ")}` : "",
    cut ? `showing ${cut} column edges` : "",
  ].filter(Boolean);
  return (
    <section className={styles.bar} aria-label="Explanation">
      <p className={styles.sources} aria-live="polite">
        {target && <Part part={target} />}
        {partsOf("source").length > 0 && <Arrow />}
        {partsOf("source").map((part) => (
          <Part key={part.text} part={part} />
        ))}
      </p>
      <p className={styles.codes}>
        {partsOf("code").map((part, i) => (
          <Fragment key={`${part.cell} ${part.line} ${part.text}`}>
            {i > 0 && <Arrow />}
            <Part part={part} />
          </Fragment>
        ))}
      </p>
      <p className={styles.notes} title={notes.join("\n")}>
        {notes.join(" · ")}
      </p>
      <button
        type="button"
        className={controls.quiet}
        aria-pressed={isTextShown}
        onClick={() => updateQuery({ text: isTextShown ? null : "1" })}
      >
        as text
      </button>
    </section>
  );
}

function Arrow() {
  return (
    <span className={styles.arrow}>
      <span aria-hidden="true">←</span>
      <span className="visually-hidden"> from </span>
    </span>
  );
}

function Part({ part }: { part: SentencePart }) {
  const { page } = useRun();
  if (part.cell === undefined) {
    return (
      <bdi className={styles[part.kind]} title={part.text}>
        {part.text}
      </bdi>
    );
  }
  const cell = itemAt(page.cells, part.cell);
  return (
    <button
      type="button"
      className={styles[part.kind]}
      title={`${part.text}\ncell ${cell.number}, ${cell.title}${part.line ? `, line ${part.line}` : ""}`}
      onClick={() => updateQuery({ open: `cell:${cell.executionId}` })}
    >
      <code>{part.text}</code> <small>cell {cell.number}</small>
    </button>
  );
}
