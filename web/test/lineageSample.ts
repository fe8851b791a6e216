import type { LineageGraphEdge, LineageGraphNode, LineageGraphView } from "../src/api/types";

export function node(
  label: string,
  x: number,
  columns: string[],
  kind: "dataset" | "job" = "dataset",
): LineageGraphNode {
  return {
    id: label,
    kind,
    namespace: "wh",
    name: label,
    label,
    box: { x, y: 0, width: 100, height: 80 },
    columns: columns.map((name) => ({ name, type: null })),
    columnTotal: columns.length,
    hiddenUpstream: label === "a" ? 2 : 0,
    hiddenDownstream: 0,
    state: null,
    at: null,
    sessionId: null,
  };
}

function edge(
  from: string,
  to: string,
  type: "DIRECT" | "INDIRECT",
  subtype: string,
  flag: "inferred" | null,
): LineageGraphEdge {
  return {
    source: { state: 0, column: from },
    target: { state: 2, column: to },
    type,
    subtype,
    flag,
    job: 1,
    code: ["x * 2"],
  };
}

/** a (x, y) → job → b (z, w) */
export const GRAPH: LineageGraphView = {
  centre: "b",
  nodes: [node("a", 0, ["x", "y"]), node("job", 150, [], "job"), node("b", 300, ["z", "w"])],
  links: [
    { source: "a", target: "job", states: [] },
    { source: "job", target: "b", states: [] },
  ],
  edges: [
    edge("x", "z", "DIRECT", "TRANSFORMATION", null),
    edge("y", "z", "INDIRECT", "FILTER", null),
    edge("y", "w", "DIRECT", "IDENTITY", "inferred"),
  ],
  groups: [],
  timeRange: { first: null, last: null },
  isTruncated: false,
  card: { head: 40, row: 20, maxRows: 6 },
};
