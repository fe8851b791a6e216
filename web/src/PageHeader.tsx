import { useState } from "react";
import { href, type View } from "./router";
import { SearchBox } from "./SearchBox";

/** What the header leads to, and the views that belong to each. */
const WAYS: readonly [View, string, readonly View[]][] = [
  ["run", "Home", ["run", "graph", "time"]],
  ["lineage", "Lineage", ["lineage"]],
  ["datasets", "Datasets", ["datasets", "dataset"]],
  ["jobs", "Jobs", ["jobs", "job"]],
  ["runs", "Runs", ["runs", "job-run", "diff"]],
  ["events", "Events", ["events"]],
  ["health", "Health", ["health"]],
];

/** On every page; a page that was sent as a file has nowhere else to go. */
export function PageHeader({ view, isServed }: { view: View | null; isServed: boolean }) {
  return (
    <header className="top">
      <button type="button" className="skip" onClick={skip}>
        Skip to the content
      </button>
      <a className="brand" href="#/">
        <Clew />
        clew
      </a>
      {isServed && (
        <nav aria-label="Pages">
          {WAYS.map(([name, words, own]) => (
            <a
              key={name}
              href={name === "run" ? "#/" : href(name)}
              aria-current={view && own.includes(view) ? "page" : undefined}
            >
              {words}
            </a>
          ))}
        </nav>
      )}
      {isServed && <SearchBox />}
      <ThemeSwitch />
    </header>
  );
}

/** Not a link: the hash is the view's. */
function skip(): void {
  document.getElementById("main")?.focus();
}

const KEPT = "clew-colours";

function ThemeSwitch() {
  const [scheme, setScheme] = useState(() => {
    const kept = keptScheme();
    if (kept) document.documentElement.style.colorScheme = kept;
    return kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  });
  const other = scheme === "dark" ? "light" : "dark";
  const change = () => {
    document.documentElement.style.colorScheme = other;
    setScheme(other);
    try {
      localStorage.setItem(KEPT, other);
    } catch {
      // Where nothing can be kept, the choice lasts as long as the page.
    }
  };
  return (
    <button
      type="button"
      className="quiet"
      onClick={change}
      aria-label={`Switch to ${other} colours`}
      title={`${other} colours`}
    >
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.5" />
        <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
      </svg>
    </button>
  );
}

function keptScheme(): string | null {
  try {
    const kept = localStorage.getItem(KEPT);
    return kept === "dark" || kept === "light" ? kept : null;
  } catch {
    return null;
  }
}

function Clew() {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true" className="mark">
      <circle cx="10.5" cy="10.5" r="7.5" />
      <path d="M4 7.5c4.5-1.5 9.5 0 13 4M3.5 12.5c4.5-1 8.5 1 11 4.5M8 3.600c3.5 1 7 3.5 9.300 6.5M17 14.5c2.5.5 1.5 4 4.5 5" />
    </svg>
  );
}
