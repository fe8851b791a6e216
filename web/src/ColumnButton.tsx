import type { KeyboardEvent } from "react";
import { useFollowed } from "./follow";
import { nearest, portKey, samePort, strengthOf } from "./lineage";
import type { Port } from "./page";

/** A column that can be followed: by pointing at it, by focusing it, for good by pressing it. */
export function ColumnButton({ port, type, className }: { port: Port; type?: string | null; className: string }) {
  const { page, path, pinned, active, point, pin, lineage } = useFollowed();
  const column = port.column ?? "";
  const walk = (event: KeyboardEvent<HTMLButtonElement>) => {
    const target = walkTarget(event);
    if (target) {
      event.preventDefault();
      target.focus();
    }
  };
  const walkTarget = (event: KeyboardEvent<HTMLButtonElement>): HTMLElement | null => {
    if (event.key === "ArrowUp" || event.key === "ArrowDown") return sibling(event.currentTarget, event.key);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return null;
    const found = nearest(lineage, port, event.key === "ArrowLeft" ? "up" : "down", (p) => element(p) !== null);
    return found && element(found);
  };
  return (
    <button
      type="button"
      className={className}
      data-port={portKey(port)}
      data-lit={strengthOf(path, port.state, column)}
      data-active={samePort(active, port) || undefined}
      aria-pressed={samePort(pinned, port)}
      aria-label={`${column}${type ? ` ${type}` : ""}, column of ${page.states[port.state]?.label}`}
      title={column}
      onPointerEnter={() => point(port)}
      onPointerLeave={() => point(null)}
      onFocus={(event) => event.currentTarget.matches(":focus-visible") && point(port)}
      onBlur={() => point(null)}
      onClick={() => pin(port)}
      onKeyDown={walk}
    >
      <bdi>{column}</bdi> {type && <small>{type}</small>}
    </button>
  );
}

function element(port: Port): HTMLElement | null {
  return document.querySelector(`[data-port="${CSS.escape(portKey(port))}"]`);
}

function sibling(from: HTMLElement, key: string): HTMLElement | null {
  const all = [...document.querySelectorAll<HTMLElement>("[data-port]")];
  return all[all.indexOf(from) + (key === "ArrowDown" ? 1 : -1)] ?? null;
}
