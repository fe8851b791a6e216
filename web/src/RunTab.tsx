import { type CSSProperties, useEffect, useMemo, useRef, useState } from "react";
import { CellCard } from "./CellCard";
import { DatasetCard } from "./DatasetCard";
import { useFollowed } from "./follow";
import { at, type Lane } from "./page";
import { litOperations, litThreads, placed, restingThreads, type Stage, visibleColumns } from "./threads";
import { shownOf } from "./words";

/** The run in three lanes: what it read, its cells in run order, what it wrote. */
export function RunTab() {
  const { page, path, pinnedPath } = useFollowed();
  const { lanes } = page;
  const [frame, width] = useWidth(lanes.width);
  const { boxes, width: full } = useMemo(() => placed(lanes, width), [lanes, width]);
  const stage: Stage = useMemo(() => {
    const room = lanes.card.maxRows;
    const columnsOf = (state: number) => visibleColumns(at(page.states, state), state, pinnedPath, room);
    return { page, boxes, columnsOf };
  }, [page, boxes, lanes, pinnedPath]);
  const all = useMemo(() => restingThreads(stage), [stage]);
  const lit = useMemo(() => (path ? litThreads(stage, path) : []), [stage, path]);
  const taken = new Set(lit.map((thread) => thread.link));
  const resting = all.filter((thread) => !taken.has(thread.key));
  const operations = useMemo(() => (path ? litOperations(page, path) : new Map()), [page, path]);
  const sizes = {
    "--card-head": `${lanes.card.head}px`,
    "--row": `${lanes.card.row}px`,
    "--cell-head": `${lanes.cell.head}px`,
    "--line-height": `${lanes.cell.line}px`,
    "--ports": `${lanes.cell.ports}px`,
    width: full,
    height: lanes.height + HEADING,
  } as CSSProperties;
  return (
    <div className="lanes-frame" ref={frame}>
      <div className="lanes" style={sizes}>
        <svg className="threads" width={full} height={lanes.height + HEADING} aria-hidden="true">
          <g transform={`translate(0 ${HEADING})`}>
            {resting.map((thread) => (
              <path key={thread.key} d={thread.d} className="resting" />
            ))}
            {lit.map((thread) => (
              <g key={thread.key} className={thread.strength} data-guessed={thread.isGuessed || undefined}>
                <path d={thread.d} />
                <circle cx={thread.end.x} cy={thread.end.y} r="3" />
              </g>
            ))}
          </g>
        </svg>
        <section aria-label="Reads">
          <LaneTitle x={0} name="Reads" lane={lanes.reads} />
          {lanes.reads.items.map((i) => (
            <DatasetCard key={i} place={i} box={boxes[`state:${i}`]} columns={stage.columnsOf(i)} top={HEADING} />
          ))}
          {lanes.reads.total === 0 && <p className="nothing">Nothing was read.</p>}
        </section>
        <section aria-label="Notebook, cells in run order">
          <LaneTitle
            x={boxes[`cell:${lanes.cells.items[0]}`]?.x ?? 340}
            name="Notebook, cells in run order"
            lane={lanes.cells}
          />
          {lanes.cells.items.map((i) => (
            <CellCard key={i} place={i} box={boxes[`cell:${i}`]} made={operations} top={HEADING} />
          ))}
        </section>
        <section aria-label="Writes">
          <LaneTitle x={full - 264} name="Writes" lane={lanes.writes} />
          {lanes.writes.items.map((i) => (
            <DatasetCard key={i} place={i} box={boxes[`state:${i}`]} columns={stage.columnsOf(i)} top={HEADING} />
          ))}
          {lanes.writes.total === 0 && (
            <p className="nothing" style={{ left: full - 264 }}>
              Nothing was written.
            </p>
          )}
        </section>
      </div>
      <Legend />
    </div>
  );
}

const HEADING = 26;

function LaneTitle({ x, name, lane }: { x: number; name: string; lane: Lane }) {
  const cut = shownOf(lane.items.length, lane.total);
  return (
    <h2 style={{ left: x }}>
      {name} {cut && <span>{cut}</span>}
    </h2>
  );
}

export function Legend() {
  return (
    <footer>
      <span>
        <Line /> makes the values
      </span>
      <span>
        <Line dash="5 4" /> only sways them: filter, join, group, sort
      </span>
      <span>
        <Line dash="1.5 4" /> guessed
      </span>
      <span className="keys">
        <kbd>←</kbd> <kbd>→</kbd> walk a column upstream, downstream · <kbd>↑</kbd> <kbd>↓</kbd> next column ·{" "}
        <kbd>Enter</kbd> keep it
      </span>
    </footer>
  );
}

function Line({ dash }: { dash?: string }) {
  return (
    <svg width="26" height="8" aria-hidden="true">
      <path d="M1 4H25" stroke="var(--thread)" strokeWidth="2" strokeLinecap="round" strokeDasharray={dash} />
    </svg>
  );
}

function useWidth(start: number): [React.RefObject<HTMLDivElement | null>, number] {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(start);
  useEffect(() => {
    if (!frame.current) return;
    const watch = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    watch.observe(frame.current);
    return () => watch.disconnect();
  }, []);
  return [frame, width];
}
