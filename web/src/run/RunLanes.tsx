import { type CSSProperties, useEffect, useMemo, useRef, useState } from "react";
import type { Lane } from "../api/types";
import { countLabel } from "../format";
import { type LaneLayout, laneEdges } from "../graph/edgePaths";
import edgeStyles from "../graph/edges.module.css";
import { Legend } from "../graph/Legend";
import { CellCard } from "./CellCard";
import { DatasetCard } from "./DatasetCard";
import { columnsByOperation, fitLanes } from "./lanes";
import styles from "./RunLanes.module.css";
import { useRun } from "./runContext";

const TITLE_HEIGHT = 26;
const DATASET_WIDTH = 264;

/** The run in three lanes: datasets read, cells in run order, datasets written. */
export function RunLanes() {
  const { page, path, columnsOf } = useRun();
  const { lanes } = page;
  const [frame, frameWidth] = useWidth(lanes.width);
  const { boxes, width } = useMemo(() => fitLanes(lanes, frameWidth), [lanes, frameWidth]);
  const layout: LaneLayout = useMemo(
    () => ({ page, boxes, columnsOf: (state) => columnsOf(state, lanes.card.maxRows) }),
    [page, boxes, lanes, columnsOf],
  );
  const edges = useMemo(() => laneEdges(layout, path), [layout, path]);
  const operations = useMemo(() => (path ? columnsByOperation(page, path) : new Map()), [page, path]);
  const height = lanes.height + TITLE_HEIGHT;
  const style = {
    "--card-head": `${lanes.card.head}px`,
    "--row": `${lanes.card.row}px`,
    "--cell-head": `${lanes.cell.head}px`,
    "--line-height": `${lanes.cell.line}px`,
    "--frame-columns": `${lanes.cell.ports}px`,
    width,
    height,
  } as CSSProperties;
  const datasetCards = (lane: Lane) =>
    lane.items.map((i) => (
      <DatasetCard key={i} index={i} box={boxes[`state:${i}`]} columns={layout.columnsOf(i)} top={TITLE_HEIGHT} />
    ));
  return (
    <div className={styles.frame} ref={frame}>
      <div className={styles.lanes} style={style}>
        <svg className={styles.edges} width={width} height={height} aria-hidden="true" data-testid="edges">
          <g transform={`translate(0 ${TITLE_HEIGHT})`}>
            {edges.map(({ key, d, end, kind, isInferred }) =>
              kind === null ? (
                <path key={key} d={d} className={edgeStyles.idle} />
              ) : (
                <g key={key} className={edgeStyles[kind]} data-kind={kind} data-inferred={isInferred || undefined}>
                  <path d={d} />
                  <circle cx={end.x} cy={end.y} r="3" />
                </g>
              ),
            )}
          </g>
        </svg>
        <section aria-label="Reads">
          <LaneTitle x={0} name="Reads" lane={lanes.reads} />
          {datasetCards(lanes.reads)}
          {lanes.reads.total === 0 && <p className={styles.empty}>Nothing was read.</p>}
        </section>
        <section aria-label="Cells in run order">
          <LaneTitle x={boxes[`cell:${lanes.cells.items[0]}`]?.x ?? 340} name="Cells in run order" lane={lanes.cells} />
          {lanes.cells.items.map((i) => (
            <CellCard key={i} index={i} box={boxes[`cell:${i}`]} operations={operations} top={TITLE_HEIGHT} />
          ))}
        </section>
        <section aria-label="Writes">
          <LaneTitle x={width - DATASET_WIDTH} name="Writes" lane={lanes.writes} />
          {datasetCards(lanes.writes)}
          {lanes.writes.total === 0 && (
            <p className={styles.empty} style={{ left: width - DATASET_WIDTH }}>
              Nothing was written.
            </p>
          )}
        </section>
      </div>
      <Legend />
    </div>
  );
}

function LaneTitle({ x, name, lane }: { x: number; name: string; lane: Lane }) {
  const cut = countLabel(lane.items.length, lane.total);
  return (
    <h2 style={{ left: x }}>
      {name} {cut && <span>{cut}</span>}
    </h2>
  );
}

function useWidth(initial: number): [React.RefObject<HTMLDivElement | null>, number] {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(initial);
  useEffect(() => {
    if (!frame.current) return;
    const observer = new ResizeObserver(([entry]) => entry && setWidth(entry.contentRect.width));
    observer.observe(frame.current);
    return () => observer.disconnect();
  }, []);
  return [frame, width];
}
