import { ColumnButton } from "./ColumnButton";
import { useFollowed } from "./follow";
import { at, type Box } from "./page";
import { go } from "./route";
import { folder, shape } from "./words";

interface Props {
  place: number;
  box: Box | undefined;
  columns: readonly string[];
  top: number;
}

export function DatasetCard({ place, box, columns, top }: Props) {
  const { page, path } = useFollowed();
  const state = at(page.states, place);
  if (!box) return null;
  const types = new Map(state.columns.map((field) => [field.name, field.type]));
  const hidden = state.columns.length - columns.length;
  return (
    <article
      className="card"
      data-lit={path?.states.has(place) || undefined}
      style={{ left: box.x, top: box.y + top, width: box.width, height: box.height }}
    >
      <button type="button" className="head" onClick={() => go({ open: `state:${place}` })} title={state.name}>
        <b>
          <bdi>{state.label}</bdi>
        </b>
        <span>{shape(state)}</span>
        <small>
          <bdi>{folder(state)}</bdi>
        </small>
      </button>
      {columns.map((column) => (
        <ColumnButton key={column} className="col" port={{ state: place, column }} type={types.get(column) ?? null} />
      ))}
      {hidden > 0 && (
        <button type="button" className="more" onClick={() => go({ open: `state:${place}` })}>
          {columns.length} of {state.columns.length} columns
        </button>
      )}
    </article>
  );
}
