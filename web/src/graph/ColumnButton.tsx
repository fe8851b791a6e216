import type { KeyboardEvent } from "react";
import type { Port } from "../api/types";
import { columnKey, isSameColumn, kindOnPath, nearestColumn } from "../selection/lineageIndex";
import { useSelection } from "../selection/useColumnSelection";

interface Props {
  state: number;
  column: string;
  type?: string | null;
  className: string | undefined;
}

/** A column: hover or focus highlights its path, a click selects it, arrow keys go to related columns. */
export function ColumnButton({ state, column, type, className }: Props) {
  const { path, selected, active, hover, select, index, labelOf } = useSelection();
  const own: Port = { state, column };
  const keyTarget = (event: KeyboardEvent<HTMLButtonElement>): HTMLElement | null => {
    if (event.key === "ArrowUp" || event.key === "ArrowDown") return siblingOf(event.currentTarget, event.key);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return null;
    const direction = event.key === "ArrowLeft" ? "upstream" : "downstream";
    const next = nearestColumn(index, own, direction, (other) => buttonOf(other) !== null);
    return next && buttonOf(next);
  };
  const onKeyDown = (event: KeyboardEvent<HTMLButtonElement>) => {
    const target = keyTarget(event);
    if (!target) return;
    event.preventDefault();
    target.focus();
  };
  return (
    <button
      type="button"
      className={className}
      data-column={columnKey(own)}
      data-highlight={kindOnPath(path, state, column)}
      data-active={isSameColumn(active, own) || undefined}
      aria-pressed={isSameColumn(selected, own)}
      aria-label={`${column}${type ? ` ${type}` : ""}, column of ${labelOf(state)}`}
      title={column}
      onPointerEnter={() => hover(own)}
      onPointerLeave={() => hover(null)}
      onFocus={(event) => event.currentTarget.matches(":focus-visible") && hover(own)}
      onBlur={() => hover(null)}
      onClick={() => select(own)}
      onKeyDown={onKeyDown}
    >
      <bdi>{column}</bdi> {type && <small>{type}</small>}
    </button>
  );
}

function buttonOf(column: Port): HTMLElement | null {
  return document.querySelector(`[data-column="${CSS.escape(columnKey(column))}"]`);
}

function siblingOf(button: HTMLElement, key: "ArrowUp" | "ArrowDown"): HTMLElement | null {
  const all = [...document.querySelectorAll<HTMLElement>("[data-column]")];
  return all[all.indexOf(button) + (key === "ArrowDown" ? 1 : -1)] ?? null;
}
