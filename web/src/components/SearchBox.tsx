import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { fetchJson } from "../api/client";
import type { SearchResult, SearchResults } from "../api/types";
import { baseName, countLabel, nodeLabel } from "../format";
import { datasetUrl, jobUrl, lineageUrl, navigate, urlFor } from "../router";
import layout from "./layout.module.css";
import styles from "./SearchBox.module.css";

const GROUP_LABELS: Record<SearchResult["kind"], string> = {
  dataset: "Datasets",
  column: "Columns",
  job: "Jobs",
  run: "Runs",
  code: "Code",
  text_match: "Text matches",
};
const DEBOUNCE_MS = 120;
// While the search index is refreshed on the server.
const REPEAT_MS = 500;

/** Search with suggestions: `/` focuses it, arrow keys choose, Enter opens. */
export function SearchBox({ isLarge = false }: { isLarge?: boolean }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const { results, isLoading } = useSearch(text);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useSlashKey(input, !isLarge);
  const items = results?.items ?? [];
  const open = (item: SearchResult | undefined) => {
    if (!item) return;
    navigate(urlOf(item));
    setOpen(false);
    input.current?.blur();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      setOpen(false);
      input.current?.blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((previous) => (items.length ? (previous + step + items.length) % items.length : 0));
    } else if (event.key === "Enter") {
      open(items[chosen]);
    }
  };
  return (
    <div className={styles.search} data-large={isLarge || undefined}>
      <input
        ref={input}
        type="search"
        role="combobox"
        aria-expanded={isOpen && text.trim() !== ""}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && items[chosen] ? `${id}-${chosen}` : undefined}
        aria-label={isLarge ? "Search everything" : "Search"}
        placeholder="Search datasets, columns, jobs, runs, code"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      {!isLarge && <kbd>/</kbd>}
      {isOpen && text.trim() !== "" && (
        <div className={styles.results}>
          <div id={`${id}-list`} role="listbox" aria-label="Results">
            {items.map((item, i) => (
              <Item
                key={`${item.kind} ${item.name.namespace} ${item.name.name} ${item.column} ${item.runUuid} ${item.text}`}
                id={`${id}-${i}`}
                item={item}
                isFirst={items[i - 1]?.kind !== item.kind}
                count={countLabel(
                  items.filter((other) => other.kind === item.kind).length,
                  results?.totals[item.kind] ?? 0,
                )}
                isChosen={i === chosen}
                open={open}
              />
            ))}
          </div>
          {items.length === 0 && <p className={layout.empty}>{isLoading ? "Searching…" : "No results"}</p>}
        </div>
      )}
    </div>
  );
}

interface ItemProps {
  id: string;
  item: SearchResult;
  isFirst: boolean;
  count: string;
  isChosen: boolean;
  open: (item: SearchResult) => void;
}

function Item({ id, item, isFirst, count, isChosen, open }: ItemProps) {
  const { name, detail } = describeItem(item);
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the combobox
    <div
      id={id}
      role="option"
      aria-selected={isChosen}
      data-group={isFirst ? `${GROUP_LABELS[item.kind]}${count ? ` · ${count}` : ""}` : undefined}
      // Not onClick: the list closes when the input loses focus.
      onPointerDown={(event) => {
        event.preventDefault();
        open(item);
      }}
    >
      {item.kind === "code" ? <code>{name}</code> : <bdi>{name}</bdi>}
      <small>
        <bdi>{detail}</bdi>
      </small>
    </div>
  );
}

function describeItem({ kind, name, column, runUuid, text }: SearchResult): { name: string; detail: string } {
  switch (kind) {
    case "column":
      return { name: column ?? "", detail: nodeLabel({ namespace: baseName(name.name), name: name.namespace }) };
    case "run":
      return { name: runUuid ?? "", detail: name.name };
    case "code":
      return { name: text ?? "", detail: name.name };
    case "text_match":
      return { name: baseName(name.name), detail: text ?? "" };
    default:
      return { name: baseName(name.name), detail: nodeLabel(name) };
  }
}

function urlOf(item: SearchResult): string {
  switch (item.kind) {
    case "dataset":
      return datasetUrl(item.name);
    case "column":
      return lineageUrl("dataset", item.name, item.column ?? "");
    case "job":
      return jobUrl(item.name);
    case "run":
      return urlFor("job-run", {}, item.runUuid);
    case "code":
      return urlFor("run", {}, item.sessionId);
    case "text_match":
      return item.matchedKind === "dataset" ? datasetUrl(item.name) : jobUrl(item.name);
  }
}

function useSlashKey(input: React.RefObject<HTMLInputElement | null>, isEnabled: boolean): void {
  useEffect(() => {
    if (!isEnabled) return;
    const onKeyDown = (event: globalThis.KeyboardEvent) => {
      const isTyping = (event.target as HTMLElement).matches?.("input, textarea, select");
      if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, [input, isEnabled]);
}

function useSearch(text: string): { results: SearchResults | null; isLoading: boolean } {
  const [results, setResults] = useState<SearchResults | null>(null);
  const [isLoading, setLoading] = useState(false);
  useEffect(() => {
    if (!text.trim()) {
      setResults(null);
      return;
    }
    const controller = new AbortController();
    setLoading(true);
    const search = () => {
      fetchJson<SearchResults>(`api/v2/pages/search?${new URLSearchParams({ text })}`, controller.signal).then(
        (list) => {
          if (controller.signal.aborted) return;
          setResults(list);
          setLoading(!list.isComplete);
          if (!list.isComplete) timer = setTimeout(search, REPEAT_MS);
        },
        () => {
          if (!controller.signal.aborted) setLoading(false);
        },
      );
    };
    let timer = setTimeout(search, DEBOUNCE_MS);
    return () => {
      clearTimeout(timer);
      controller.abort();
    };
  }, [text]);
  return { results, isLoading };
}
