/** Layout of the three lanes of a run, and the columns that its operations produce. */

import { itemAt } from "../api/client";
import type { Box, LanesView, RunPage } from "../api/types";
import { formatConstant } from "../format";
import type { EdgeKind, Path } from "../selection/lineageIndex";

/** Fit the lanes to a window: the cells get the extra width. */
export function fitLanes(lanes: LanesView, width: number): { boxes: Record<string, Box>; width: number } {
  const extra = Math.max(0, Math.floor(width - lanes.width));
  const written = new Set(lanes.writes.items.map((i) => `state:${i}`));
  const boxes = Object.entries(lanes.boxes).map(([id, box]): [string, Box] => {
    if (id.startsWith("cell:")) return [id, { ...box, width: box.width + extra }];
    return [id, written.has(id) ? { ...box, x: box.x + extra } : box];
  });
  return { boxes: Object.fromEntries(boxes), width: lanes.width + extra };
}

export type OperationColumns = Map<number, Map<string, EdgeKind>>;

/** The columns on a path that each operation produced. */
export function columnsByOperation(page: RunPage, path: Path): OperationColumns {
  const byOperation: OperationColumns = new Map();
  for (const [i, kind] of path.edges) {
    const edge = itemAt(page.edges, i);
    if (edge.operation === null) continue;
    const columns = byOperation.get(edge.operation) ?? new Map<string, EdgeKind>();
    const name = `${edge.target.column ?? formatConstant(edge.subtype ?? "all columns")}${edge.flag ? " (inferred)" : ""}`;
    if (columns.get(name) !== "direct") columns.set(name, kind);
    byOperation.set(edge.operation, columns);
  }
  return byOperation;
}
