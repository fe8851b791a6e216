import type { ReactNode } from "react";
import { countLabel } from "../format";
import layout from "./layout.module.css";

interface HeadingProps {
  children: ReactNode;
  shown?: number | undefined;
  total?: number | undefined;
}

/** A heading with the number of items, or "12 of 340" if the list is cut. */
export function Heading({ children, shown, total }: HeadingProps) {
  const count = total === undefined ? "" : countLabel(shown ?? total, total) || `${total}`;
  return (
    <div className={layout.heading}>
      <h2>
        {children} {count && <span>{count}</span>}
      </h2>
    </div>
  );
}

interface PanelProps {
  title: string;
  shown?: number;
  total?: number;
  children: ReactNode;
}

/** A titled section of a page. */
export function Panel({ title, shown, total, children }: PanelProps) {
  return (
    <section className={layout.panel}>
      <Heading shown={shown} total={total}>
        {title}
      </Heading>
      {children}
    </section>
  );
}

export function EmptyState({ children }: { children: ReactNode }) {
  return <p className={layout.empty}>{children}</p>;
}
