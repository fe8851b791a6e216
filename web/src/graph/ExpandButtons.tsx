import styles from "./Card.module.css";

export type Side = "up" | "down";

interface Props {
  node: { hiddenUpstream: number; hiddenDownstream: number };
  label: string;
  onExpand: (side: Side) => void;
}

/** Buttons with the number of hidden neighbours on each side of a node. */
export function ExpandButtons({ node, label, onExpand }: Props) {
  const sides = [
    ["up", node.hiddenUpstream, "upstream", styles.upstream],
    ["down", node.hiddenDownstream, "downstream", styles.downstream],
  ] as const;
  return sides.map(([side, hidden, direction, className]) =>
    hidden > 0 ? (
      <button
        key={side}
        type="button"
        className={`${styles.expand} ${className}`}
        aria-label={`+ ${hidden} ${direction} of ${label}`}
        onClick={() => onExpand(side)}
      >
        + {hidden} {direction}
      </button>
    ) : null,
  );
}
