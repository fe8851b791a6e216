import { useEffect, useState } from "react";
import type { TimeRange } from "../api/types";
import { formatDate } from "../format";
import { updateQuery } from "../router";
import styles from "./AsOfSlider.module.css";

const STEPS = 100;

/** A slider from the first event to now; the graph is loaded when it is released. */
export function AsOfSlider({ range, value }: { range: TimeRange; value: string | null }) {
  const from = range.first === null ? 0 : Date.parse(range.first);
  const to = range.last === null ? 0 : Date.parse(range.last);
  const step = value === null ? STEPS : Math.round(((Date.parse(value) - from) / Math.max(1, to - from)) * STEPS);
  const [dragged, setDragged] = useState(step);
  useEffect(() => setDragged(step), [step]);
  if (to <= from) return null;
  const date = new Date(from + ((to - from) * dragged) / STEPS).toISOString();
  const label = dragged >= STEPS ? "now" : formatDate(date);
  const apply = () => updateQuery({ asOf: dragged >= STEPS ? null : date });
  return (
    <label className={styles.slider}>
      <span>as of {label}</span>
      <input
        type="range"
        min={0}
        max={STEPS}
        value={dragged}
        aria-label="As of"
        aria-valuetext={label}
        onChange={(event) => setDragged(Number(event.target.value))}
        onPointerUp={apply}
        onKeyUp={apply}
      />
    </label>
  );
}
