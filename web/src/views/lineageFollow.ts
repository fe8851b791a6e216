/** Which column of the lineage graph is followed: the one under the pointer, else the one in the URL. */

import { createContext, useContext, useMemo, useState } from "react";
import type { LineageEdge, LineageGraph } from "../documents";
import { type Lineage, lineageOf, type Path, pathOf, samePort } from "../lineage";
import type { Port } from "../page";
import { change, parsePlace } from "../router";
import { roomyColumns } from "./lineageThreads";

export interface LineageFollow {
  graph: LineageGraph;
  lineage: Lineage<LineageEdge>;
  pinned: Port | null;
  active: Port | null;
  path: Path | null;
  /** The columns of a node that have a row; they do not change under the pointer. */
  columnsOf: (place: number) => string[];
  point: (port: Port | null) => void;
  pin: (port: Port | null) => void;
}

export const LineageContext = createContext<LineageFollow | null>(null);

export function useLineageFollowed(): LineageFollow {
  const follow = useContext(LineageContext);
  if (!follow) throw new Error("This part of the page needs a graph.");
  return follow;
}

export function useLineage(graph: LineageGraph, column: string | null): LineageFollow {
  const [pointed, point] = useState<Port | null>(null);
  const lineage = useMemo(() => lineageOf(graph), [graph]);
  const pinned = useMemo((): Port | null => {
    const at = parsePlace(location.hash).values.get("at") ?? graph.centre;
    const state = graph.nodes.findIndex((node) => node.id === at);
    return column && state >= 0 ? { state, column } : null;
  }, [graph, column]);
  const pinnedPath = useMemo(() => (pinned ? pathOf(lineage, pinned) : null), [lineage, pinned]);
  const active = pointed ?? pinned;
  const path = useMemo(
    () => (active === null ? null : samePort(active, pinned) ? pinnedPath : pathOf(lineage, active)),
    [lineage, active, pinned, pinnedPath],
  );
  const columnsOf = useMemo(() => {
    const known = graph.nodes.map((node, place) => roomyColumns(node, place, pinnedPath, graph.card.maxRows));
    return (place: number) => known[place] ?? [];
  }, [graph, pinnedPath]);
  const pin = (port: Port | null) => {
    const node = port ? graph.nodes[port.state] : undefined;
    change({ column: port?.column ?? null, at: node && node.id !== graph.centre ? node.id : null });
  };
  return { graph, lineage, pinned, active, path, columnsOf, point, pin };
}
