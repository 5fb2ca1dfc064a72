import { useId } from "preact/hooks";
import { clockTime, exactTime, shortNumber } from "./format.ts";

export interface Series {
  name: string;
  /** A token of the design, such as `--good`. */
  color: string;
  values: readonly number[];
}

const WIDTH = 640;
const HEIGHT = 140;
const LEFT = 44;
const BOTTOM = 18;
const TOP = 6;

/** A maximum that ends an axis well: 1, 2 or 5 times a power of ten. */
export function axisEnd(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((factor) => factor * power >= most) ?? 10) * power;
}

interface BarsProps {
  times: readonly string[];
  series: readonly Series[];
  unit: string;
  /** The value at the upper end of the axis. */
  top: number;
}

const toHeight = (value: number, top: number): number => (value / top) * (HEIGHT - BOTTOM - TOP);

const Legend = ({ series }: { series: readonly Series[] }) => (
  <span class="legend">
    {series.map(({ name, color }) => (
      <span key={name}>
        <svg width="10" height="10" aria-hidden="true">
          <rect width="10" height="10" rx="2" fill={`var(${color})`} />
        </svg>
        {name}
      </span>
    ))}
  </span>
);

const ValueAxis = ({ top, unit }: { top: number; unit: string }) => (
  <g>
    {[0, 0.5, 1].map((share) => {
      const y = HEIGHT - BOTTOM - toHeight(top * share, top);
      return (
        <g key={share}>
          <line x1={LEFT} x2={WIDTH} y1={y} y2={y} class="grid" />
          <text x={LEFT - 6} y={y + 4} class="tick end">
            {shortNumber(top * share)}
            {unit}
          </text>
        </g>
      );
    })}
  </g>
);

function TimeAxis({ times }: { times: readonly string[] }) {
  const step = (WIDTH - LEFT) / Math.max(1, times.length);
  const marks = times.length > 1 ? [0, Math.floor(times.length / 2), times.length - 1] : [0];
  return (
    <g>
      {marks.map((index) => {
        const anchor = index === 0 ? "" : index === times.length - 1 ? "end" : "middle";
        return (
          <text key={index} x={LEFT + (index + 0.5) * step} y={HEIGHT - 4} class={`tick ${anchor}`}>
            {times[index] ? clockTime(times[index]) : ""}
          </text>
        );
      })}
    </g>
  );
}

/** The bars of one time, one series on the other, with what they say as a title over the whole height. */
function Stack({ index, times, series, unit, top }: BarsProps & { index: number }) {
  const step = (WIDTH - LEFT) / Math.max(1, times.length);
  const values = series.map((one) => `${one.name} ${shortNumber(one.values[index] ?? 0)}${unit}`).join(", ");
  let below = 0;
  return (
    <g>
      <title>{`${exactTime(times[index] ?? "")}: ${values}`}</title>
      <rect x={LEFT + index * step} width={step} y={TOP} height={HEIGHT - BOTTOM - TOP} class="hit" />
      {series.map(({ name, color, values }) => {
        const height = toHeight(values[index] ?? 0, top);
        below += height;
        const x = LEFT + index * step + step * 0.1;
        return <rect key={name} x={x} width={step * 0.8} y={HEIGHT - BOTTOM - below} height={height} fill={`var(${color})`} />;
      })}
    </g>
  );
}

/** Bars over time, stacked by series, with axes and a legend. */
export function TimeBars(props: { label: string; times: readonly string[]; series: readonly Series[]; unit?: string }) {
  const { times, series, unit = "" } = props;
  const titleId = useId();
  const totals = times.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const top = axisEnd(Math.max(0, ...totals));
  return (
    <figure class="chart">
      <figcaption id={titleId}>
        <b>{props.label}</b>
        <Legend series={series} />
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={titleId}>
        <ValueAxis top={top} unit={unit} />
        {times.map((time, index) => (
          <Stack key={time} index={index} times={times} series={series} unit={unit} top={top} />
        ))}
        <TimeAxis times={times} />
      </svg>
    </figure>
  );
}

/** A line as small as a word: how something went over time. */
export function Spark({ values, label }: { values: readonly number[]; label: string }) {
  const most = Math.max(1, ...values);
  const step = 80 / Math.max(1, values.length);
  return (
    <svg class="spark" viewBox="0 0 80 20" width="80" height="20" role="img" aria-label={label}>
      {values.map((value, index) => (
        <rect
          key={index}
          x={index * step}
          width={Math.max(1, step - 1)}
          y={20 - (value / most) * 20}
          height={(value / most) * 20}
          fill="currentColor"
        />
      ))}
    </svg>
  );
}
