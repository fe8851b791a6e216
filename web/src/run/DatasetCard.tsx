import { itemAt } from "../api/client";
import type { Box } from "../api/types";
import { folderOf, formatShape } from "../format";
import card from "../graph/Card.module.css";
import { ColumnButton } from "../graph/ColumnButton";
import { updateQuery } from "../router";
import { useRun } from "./runContext";

interface Props {
  index: number;
  box: Box | undefined;
  columns: readonly string[];
  top: number;
}

/** A file that the run read or wrote. */
export function DatasetCard({ index, box, columns, top }: Props) {
  const { page, path } = useRun();
  const state = itemAt(page.states, index);
  if (!box) return null;
  const types = new Map(state.columns.map((field) => [field.name, field.type]));
  const open = () => updateQuery({ open: `state:${index}` });
  return (
    <article
      className={card.card}
      data-highlight={path?.states.has(index) || undefined}
      data-testid="card"
      style={{ left: box.x, top: box.y + top, width: box.width, height: box.height }}
    >
      <button type="button" className={card.head} onClick={open} title={state.name}>
        <b>
          <bdi>{state.label}</bdi>
        </b>
        <span>{formatShape(state)}</span>
        <small>
          <bdi>{folderOf(state)}</bdi>
        </small>
      </button>
      {columns.map((column) => (
        <ColumnButton
          key={column}
          className={card.column}
          state={index}
          column={column}
          type={types.get(column) ?? null}
        />
      ))}
      {state.columns.length > columns.length && (
        <button type="button" className={card.more} onClick={open}>
          {columns.length} of {state.columns.length} columns
        </button>
      )}
    </article>
  );
}
