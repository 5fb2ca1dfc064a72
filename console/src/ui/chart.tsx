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
const PLOT = HEIGHT - BOTTOM - TOP;

/** A maximum that ends an axis well: 1, 2 or 5 times a power of ten. */
export function axisEnd(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 5, 10].find((factor) => factor * power >= most) ?? 10) * power;
}

/** What each series is called, and its colour. */
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

/** The lines of the value axis: nothing, half and all of `top`. */
const ValueAxis = ({ top, unit }: { top: number; unit: string }) => (
  <>
    {[0, 0.5, 1].map((share) => {
      const y = HEIGHT - BOTTOM - share * PLOT;
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
  </>
);

/** The first, the middle and the last time under the bars. */
function TimeAxis({ times, step }: { times: readonly string[]; step: number }) {
  const last = times.length - 1;
  const marks =
    last > 0
      ? ([
          [0, ""],
          [Math.floor(times.length / 2), "middle"],
          [last, "end"],
        ] as const)
      : ([[0, ""]] as const);
  return (
    <>
      {marks.map(([index, anchor]) => (
        <text key={index} x={LEFT + (index + 0.5) * step} y={HEIGHT - 4} class={`tick ${anchor}`}>
          {times[index] ? clockTime(times[index]) : ""}
        </text>
      ))}
    </>
  );
}

export interface TimeBarsProps {
  label: string;
  /** The beginning of each bar, ISO 8601. */
  times: readonly string[];
  series: readonly Series[];
  unit?: string;
}

/** Bars over time, stacked by series, with axes and a legend; a bar's values are in its title. */
export function TimeBars({ label, times, series, unit = "" }: TimeBarsProps) {
  const titleId = useId();
  const totals = times.map((_, index) => series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0));
  const top = axisEnd(Math.max(0, ...totals));
  const step = (WIDTH - LEFT) / Math.max(1, times.length);
  return (
    <figure class="chart">
      <figcaption>
        <b id={titleId}>{label}</b>
        <Legend series={series} />
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={titleId}>
        <ValueAxis top={top} unit={unit} />
        {times.map((time, index) => {
          const said = series.map(({ name, values }) => `${name} ${shortNumber(values[index] ?? 0)}${unit}`).join(", ");
          let y = HEIGHT - BOTTOM;
          return (
            <g key={time}>
              <title>{`${exactTime(time)}: ${said}`}</title>
              <rect x={LEFT + index * step} width={step} y={TOP} height={PLOT} class="hit" />
              {series.map(({ name, color, values }) => {
                const height = ((values[index] ?? 0) / top) * PLOT;
                y -= height;
                return <rect key={name} x={LEFT + (index + 0.1) * step} width={step * 0.8} y={y} height={height} fill={`var(${color})`} />;
              })}
            </g>
          );
        })}
        <TimeAxis times={times} step={step} />
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
