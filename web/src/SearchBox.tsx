import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import type { Found, FoundList } from "./documents";
import { lastPart } from "./parts/marks";
import { datasetHref, href, jobHref, lineageHref } from "./router";
import { fetched } from "./source";
import { shownOf } from "./words";

const KINDS: Record<Found["kind"], string> = {
  dataset: "Datasets",
  column: "Columns",
  job: "Jobs",
  run: "Runs",
  code: "Code",
  mention: "Mentioned in",
};
const WAIT_MS = 120;

/** Search from anywhere: `/` leads here, arrows choose, Enter goes. */
export function SearchBox({ isLarge = false }: { isLarge?: boolean }) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [isOpen, setOpen] = useState(false);
  const { found, isSlow } = useFound(text);
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  useSlash(input, !isLarge);
  const items = found?.items ?? [];
  const go = (item: Found | undefined) => {
    if (!item) return;
    location.hash = hrefOf(item);
    setOpen(false);
    input.current?.blur();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "Escape") {
      setOpen(false);
      input.current?.blur();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      setChosen((was) => (items.length ? (was + step + items.length) % items.length : 0));
    } else if (event.key === "Enter") {
      go(items[chosen]);
    }
  };
  return (
    <div className="search" data-large={isLarge || undefined}>
      <input
        ref={input}
        type="search"
        role="combobox"
        aria-expanded={isOpen && text.trim() !== ""}
        aria-controls={`${id}-list`}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && items[chosen] ? `${id}-${chosen}` : undefined}
        aria-label={isLarge ? "Search everything" : "Search"}
        placeholder="Search columns, tables, jobs, runs, code"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
          setOpen(true);
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKey}
      />
      {!isLarge && <kbd>/</kbd>}
      {isOpen && text.trim() !== "" && (
        <div className="found">
          <div id={`${id}-list`} role="listbox" aria-label="Found">
            {items.map((item, i) => (
              <Item
                key={`${item.kind} ${item.name.namespace} ${item.name.name} ${item.column} ${item.runUuid} ${item.text}`}
                id={`${id}-${i}`}
                item={item}
                isFirst={items[i - 1]?.kind !== item.kind}
                count={shownOf(items.filter((one) => one.kind === item.kind).length, found?.totals[item.kind] ?? 0)}
                isChosen={i === chosen}
                go={go}
              />
            ))}
          </div>
          {items.length === 0 && <p className="empty">{isSlow ? "Searching …" : "Nothing bears that name."}</p>}
        </div>
      )}
    </div>
  );
}

interface ItemProps {
  id: string;
  item: Found;
  isFirst: boolean;
  count: string;
  isChosen: boolean;
  go: (item: Found) => void;
}

function Item({ id, item, isFirst, count, isChosen, go }: ItemProps) {
  return (
    // biome-ignore lint/a11y/useFocusableInteractive: focus stays in the combobox
    <div
      id={id}
      role="option"
      aria-selected={isChosen}
      data-kind={isFirst ? `${KINDS[item.kind]}${count ? ` · ${count}` : ""}` : undefined}
      // Before the input loses its focus, and the list with it.
      onPointerDown={(event) => {
        event.preventDefault();
        go(item);
      }}
    >
      <Words item={item} />
    </div>
  );
}

function Words({ item }: { item: Found }) {
  const place = `${item.name.namespace} · ${item.name.name}`;
  if (item.kind === "column")
    return <Line name={item.column ?? ""} place={`${lastPart(item.name.name)} · ${item.name.namespace}`} />;
  if (item.kind === "run") return <Line name={item.runUuid ?? ""} place={item.name.name} />;
  if (item.kind === "code") return <Line name={item.text ?? ""} place={item.name.name} isCode />;
  if (item.kind === "mention") return <Line name={lastPart(item.name.name)} place={item.text ?? ""} />;
  return <Line name={lastPart(item.name.name)} place={place} />;
}

function Line({ name, place, isCode = false }: { name: string; place: string; isCode?: boolean }) {
  return (
    <>
      {isCode ? <code>{name}</code> : <bdi>{name}</bdi>}
      <small>
        <bdi>{place}</bdi>
      </small>
    </>
  );
}

function hrefOf(item: Found): string {
  switch (item.kind) {
    case "dataset":
      return datasetHref(item.name);
    case "column":
      return lineageHref("dataset", item.name, item.column ?? "");
    case "job":
      return jobHref(item.name);
    case "run":
      return href("job-run", {}, item.runUuid);
    case "code":
      return href("run", {}, item.sessionId);
    case "mention":
      return item.of === "dataset" ? datasetHref(item.name) : jobHref(item.name);
  }
}

function useSlash(input: React.RefObject<HTMLInputElement | null>, isListening: boolean): void {
  useEffect(() => {
    if (!isListening) return;
    const focus = (event: globalThis.KeyboardEvent) => {
      const isTyping = (event.target as HTMLElement).matches?.("input, textarea, select");
      if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      input.current?.focus();
      input.current?.select();
    };
    addEventListener("keydown", focus);
    return () => removeEventListener("keydown", focus);
  }, [input, isListening]);
}

function useFound(text: string): { found: FoundList | null; isSlow: boolean } {
  const [found, setFound] = useState<FoundList | null>(null);
  const [isSlow, setSlow] = useState(false);
  useEffect(() => {
    if (!text.trim()) {
      setFound(null);
      return;
    }
    const stop = new AbortController();
    setSlow(true);
    // Not for every letter: who types fast asks once.
    const timer = setTimeout(() => {
      fetched<FoundList>(`api/v2/pages/search?${new URLSearchParams({ text })}`, stop.signal).then(
        (list) => {
          setFound(list);
          setSlow(false);
        },
        () => {
          if (!stop.signal.aborted) setSlow(false);
        },
      );
    }, WAIT_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return { found, isSlow };
}
