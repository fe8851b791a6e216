import { createContext, useContext, useMemo } from "react";
import type { LineageGraphEdge, LineageGraphView, Port } from "../api/types";
import { updateQuery } from "../router";
import { buildLineageIndex, isSameColumn } from "../selection/lineageIndex";
import { type ColumnSelection, useColumnSelection } from "../selection/useColumnSelection";
import { columnsOnPath, visibleColumns } from "./visibleColumns";

export interface LineageContextValue extends ColumnSelection<LineageGraphEdge> {
  graph: LineageGraphView;
  /** The columns of a node that have a row. */
  columnsOf: (index: number) => readonly string[];
}

export const LineageContext = createContext<LineageContextValue | null>(null);

export function useLineage(): LineageContextValue {
  const value = useContext(LineageContext);
  if (!value) throw new Error("LineageContext is missing.");
  return value;
}

/** The selection in a lineage graph. The URL has the selected column, and its node if that is not the centre. */
export function useLineageSelection(graph: LineageGraphView, params: URLSearchParams): LineageContextValue {
  const index = useMemo(() => buildLineageIndex(graph), [graph]);
  const column = params.get("column");
  const nodeId = params.get("at") ?? graph.centre;
  const selected = useMemo((): Port | null => {
    const state = graph.nodes.findIndex((node) => node.id === nodeId);
    return column && state >= 0 ? { state, column } : null;
  }, [graph, column, nodeId]);
  const select = (clicked: Port) => {
    const target = isSameColumn(selected, clicked) ? null : clicked;
    const node = target ? graph.nodes[target.state] : undefined;
    updateQuery({ column: target?.column ?? null, at: node && node.id !== graph.centre ? node.id : null });
  };
  const labelOf = (state: number) => graph.nodes[state]?.label ?? "";
  const selection = useColumnSelection(index, { selected, select, labelOf });
  const { selectedPath } = selection;
  const columnsOf = useMemo(() => {
    const visible = graph.nodes.map((node, i) => {
      const names = node.columns.map((field) => field.name);
      return visibleColumns(names, columnsOnPath(selectedPath, i), graph.card.maxRows);
    });
    return (i: number) => visible[i] ?? [];
  }, [graph, selectedPath]);
  return { ...selection, graph, columnsOf };
}
