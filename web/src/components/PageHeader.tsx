import { useState } from "react";
import { hasSession, logOut } from "../api/login";
import { urlFor, type View } from "../router";
import controls from "./controls.module.css";
import styles from "./PageHeader.module.css";
import { SearchBox } from "./SearchBox";

/** The links of the header, each with the views that belong to it. */
const LINKS: readonly [View, string, readonly View[]][] = [
  ["run", "Home", ["run", "graph", "time"]],
  ["lineage", "Lineage", ["lineage"]],
  ["datasets", "Datasets", ["datasets", "dataset"]],
  ["jobs", "Jobs", ["jobs", "job"]],
  ["runs", "Runs", ["runs", "job-run", "diff"]],
  ["events", "Events", ["events"]],
  ["health", "Health", ["health"]],
];

/** The header of every page; an exported page has no other pages to link to. */
export function PageHeader({ view, isServed }: { view: View | null; isServed: boolean }) {
  return (
    <header className={styles.header}>
      <button type="button" className={styles.skip} onClick={focusMain}>
        Skip to content
      </button>
      <a className={styles.brand} href="#/">
        <Logo />
        clew
      </a>
      {isServed && (
        <nav aria-label="Pages">
          {LINKS.map(([name, label, views]) => (
            <a
              key={name}
              href={name === "run" ? "#/" : urlFor(name)}
              aria-current={view && views.includes(view) ? "page" : undefined}
            >
              {label}
            </a>
          ))}
        </nav>
      )}
      {isServed && <SearchBox />}
      {isServed && hasSession() && <LogOutButton />}
      <ThemeSwitch />
    </header>
  );
}

function LogOutButton() {
  const onClick = () => logOut().then(() => location.reload());
  return (
    <button type="button" className={controls.quiet} onClick={onClick}>
      Log out
    </button>
  );
}

/** Not a link, because the hash is the route. */
function focusMain(): void {
  document.getElementById("main")?.focus();
}

const STORAGE_KEY = "clew-theme";

function ThemeSwitch() {
  const [theme, setTheme] = useState(() => {
    const stored = storedTheme();
    if (stored) document.documentElement.style.colorScheme = stored;
    return stored ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  });
  const other = theme === "dark" ? "light" : "dark";
  const toggle = () => {
    document.documentElement.style.colorScheme = other;
    setTheme(other);
    try {
      localStorage.setItem(STORAGE_KEY, other);
    } catch {
      // Without storage the choice lasts until the page is closed.
    }
  };
  return (
    <button
      type="button"
      className={controls.quiet}
      onClick={toggle}
      aria-label={`Switch to ${other} theme`}
      title={`${other} theme`}
    >
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" strokeWidth="1.5" />
        <path d="M8 2a6 6 0 0 1 0 12z" fill="currentColor" />
      </svg>
    </button>
  );
}

function storedTheme(): string | null {
  try {
    const theme = localStorage.getItem(STORAGE_KEY);
    return theme === "dark" || theme === "light" ? theme : null;
  } catch {
    return null;
  }
}

function Logo() {
  return (
    <svg width="24" height="24" viewBox="0 0 24 24" aria-hidden="true" className={styles.logo}>
      <circle cx="10.5" cy="10.5" r="7.5" />
      <path d="M4 7.5c4.5-1.5 9.5 0 13 4M3.5 12.5c4.5-1 8.5 1 11 4.5M8 3.600c3.5 1 7 3.5 9.300 6.5M17 14.5c2.5.5 1.5 4 4.5 5" />
    </svg>
  );
}
