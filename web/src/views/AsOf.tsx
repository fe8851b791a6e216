import { useEffect, useState } from "react";
import { change } from "../router";
import { moment } from "../words";

const STEPS = 100;

/** A slider from the first event to now; the graph follows when it is let go. */
export function AsOf({ span, value }: { span: { first: string | null; last: string | null }; value: string | null }) {
  const from = span.first === null ? 0 : Date.parse(span.first);
  const to = span.last === null ? 0 : Date.parse(span.last);
  const place = value === null ? STEPS : Math.round(((Date.parse(value) - from) / Math.max(1, to - from)) * STEPS);
  const [moving, setMoving] = useState(place);
  useEffect(() => setMoving(place), [place]);
  if (to <= from) return null;
  const when = new Date(from + ((to - from) * moving) / STEPS).toISOString();
  const settle = () => change({ asOf: moving >= STEPS ? null : when });
  return (
    <label className="as-of">
      <span>as of {moving >= STEPS ? "now" : moment(when)}</span>
      <input
        type="range"
        min={0}
        max={STEPS}
        value={moving}
        aria-label="As of"
        aria-valuetext={moving >= STEPS ? "now" : moment(when)}
        onChange={(event) => setMoving(Number(event.target.value))}
        onPointerUp={settle}
        onKeyUp={settle}
      />
    </label>
  );
}
