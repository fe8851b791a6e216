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

// Beyond this many, only those in sight are drawn.
const MANY = 100;

/** A graph that can be moved and zoomed, and in which nothing else moves; below the zoom `far` only names are read. */
export function Canvas<N extends Node, E extends Edge = Edge>({
  nodes,
  far,
  children,
  ...rest
}: ReactFlowProps<N, E> & { nodes: N[]; far: number }) {
  return (
    <div className="canvas">
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
        onlyRenderVisibleElements={nodes.length > MANY}
        {...rest}
      >
        <Distance far={far} />
        {children}
        <Background variant={BackgroundVariant.Dots} gap={22} size={1} color="var(--line)" />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

/** From afar only names can be read: they then take the room of the rest. */
function Distance({ far }: { far: number }) {
  const isFar = useStore((flow) => flow.transform[2] < far);
  const scale = useStore((flow) => Math.round(20 * flow.transform[2]) / 20);
  const flow = useStore((store) => store.domNode);
  useEffect(() => {
    flow?.toggleAttribute("data-far", isFar);
    flow?.style.setProperty("--zoom", `${Math.max(scale, 0.1)}`);
  }, [flow, isFar, scale]);
  return null;
}
