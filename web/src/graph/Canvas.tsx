import {
  Background,
  BackgroundVariant,
  Controls,
  type Edge,
  type Node,
  ReactFlow,
  type ReactFlowProps,
  useStore,
} from "@xyflow/react";
import { useEffect } from "react";
import styles from "./Canvas.module.css";

// Above this number of nodes, only the visible ones are rendered.
const MAX_RENDERED = 100;

type Props<N extends Node, E extends Edge> = ReactFlowProps<N, E> & {
  nodes: N[];
  /** Below this zoom only the names of nodes are shown. */
  namesOnlyZoom: number;
};

/** A graph with pan and zoom; nodes cannot be moved. */
export function Canvas<N extends Node, E extends Edge = Edge>({
  nodes,
  namesOnlyZoom,
  children,
  ...rest
}: Props<N, E>) {
  return (
    <div className={styles.canvas} data-testid="canvas">
      <ReactFlow<N, E>
        nodes={nodes}
        fitView
        minZoom={0.05}
        maxZoom={1.6}
        nodesDraggable={false}
        nodesConnectable={false}
        nodesFocusable={false}
        edgesFocusable={false}
        elementsSelectable={false}
        onlyRenderVisibleElements={nodes.length > MAX_RENDERED}
        {...rest}
      >
        <ZoomAttributes namesOnlyZoom={namesOnlyZoom} />
        {children}
        <Background variant={BackgroundVariant.Dots} gap={22} size={1} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

/** Expose the zoom to CSS: `data-names-only` and `--zoom` on the React Flow element. */
function ZoomAttributes({ namesOnlyZoom }: { namesOnlyZoom: number }) {
  const isNamesOnly = useStore((flow) => flow.transform[2] < namesOnlyZoom);
  const scale = useStore((flow) => Math.round(20 * flow.transform[2]) / 20);
  const element = useStore((flow) => flow.domNode);
  useEffect(() => {
    element?.toggleAttribute("data-names-only", isNamesOnly);
    element?.style.setProperty("--zoom", `${Math.max(scale, 0.1)}`);
  }, [element, isNamesOnly, scale]);
  return null;
}
