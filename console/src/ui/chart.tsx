import { useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { axisTime, exactTime, shortNumber } from "./format.ts";

export interface Series {
  name: string;
  /** A token of the design, such as `--good`. */
  color: string;
  values: readonly number[];
}

/** The width before the real one is known. */
const WIDTH = 640;
const LEFT = 32;
const BOTTOM = 22;
const TOP = 6;

/** The height of a chart, from its width. */
const toHeight = (width: number, isTall: boolean): number =>
  Math.round(Math.min(isTall ? 330 : 220, Math.max(170, width * (isTall ? 0.54 : 0.36))));

/** A maximum that ends an axis well, and whose half does so too. */
export function axisEnd(most: number): number {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 4, 6, 8, 10].find((factor) => factor * power >= most) ?? 10) * power;
}

/** The name and the colour of each series. */
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

/** The lines of the value axis: nothing, half and all of `top`. Half of an odd number of hooks is no number of hooks. */
const ValueAxis = ({
  top,
  unit,
  width,
  height,
}: {
  top: number;
  unit: string;
  width: number;
  height: number;
}) => (
  <>
    {(top % 2 === 1 ? [0, 1] : [0, 0.5, 1]).map((share) => {
      const y = height - BOTTOM - share * (height - BOTTOM - TOP);
      return (
        <g key={share}>
          <line x1={LEFT} x2={width} y1={y} y2={y} class="grid" />
          <text x={LEFT - 8} y={y + 4} class="tick end">
            {shortNumber(top * share)}
            {unit}
          </text>
        </g>
      );
    })}
  </>
);

/** The first, the middle and the last time under the bars. */
function TimeAxis({
  times,
  step,
  height,
}: {
  times: readonly string[];
  step: number;
  height: number;
}) {
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
        <text
          key={index}
          x={LEFT + (index + (anchor === "middle" ? 0.5 : anchor === "end" ? 1 : 0)) * step}
          y={height - 5}
          class={`tick ${anchor}`}
        >
          {times[index] ? axisTime(times[index], times[0] ?? "") : ""}
        </text>
      ))}
    </>
  );
}

/** The width of an element, so that what is drawn in it keeps its size. */
function useWidth(): [box: { current: HTMLDivElement | null }, width: number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(WIDTH);
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = (): void => setWidth(Math.max(200, element.clientWidth));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [box, width];
}

export interface TimeBarsProps {
  label: string;
  /** The beginning of each bar, ISO 8601. */
  times: readonly string[];
  series: readonly Series[];
  unit?: string;
  /** Takes about half of its width as height: it is what its page begins with. */
  isTall?: boolean;
  /** The list of what all bars count. */
  to?: string;
  /** The list of what one bar counts. */
  barTo?(index: number): string;
}

interface BarProps extends Pick<TimeBarsProps, "series" | "unit"> {
  index: number;
  title: string;
  left: number;
  width: number;
  gap: number;
  /** The height of `top`, and where it ends below. */
  plot: number;
  top: number;
  /** The address that a click opens. */
  to: string | undefined;
  /** Tab reaches this bar. */
  isTabbed: boolean;
}

/** One bar: its parts, and behind them all of its column, which can be pointed at. */
function Bar({ index, title, left, width, gap, plot, top, series, to, isTabbed }: BarProps) {
  let y = TOP + plot;
  const parts = (
    <>
      <title>{title}</title>
      <rect x={left} width={width} y={TOP} height={plot} class="hit" />
      {series.map(({ name, color, values }) => {
        const height = ((values[index] ?? 0) / top) * plot;
        y -= height;
        return (
          <rect
            key={name}
            x={left + gap / 2}
            width={width - gap}
            y={y}
            height={height}
            fill={`var(${color})`}
          />
        );
      })}
    </>
  );
  if (to === undefined) return <g>{parts}</g>;
  return (
    <a href={to} tabIndex={isTabbed ? 0 : -1} aria-label={title}>
      {parts}
    </a>
  );
}

/** Moves the focus among the bars that are links: Tab stops at one of them only. */
function walkBars(event: KeyboardEvent): void {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step === undefined || !(event.currentTarget instanceof Element)) return;
  const bars = [...event.currentTarget.querySelectorAll("a")];
  const next = bars[bars.findIndex((bar) => bar === event.target) + step];
  event.preventDefault();
  next?.focus();
}

/** Bars over time, stacked by series, with axes and a legend; a bar's values are in its title. */
export function TimeBars({
  label,
  times,
  series,
  unit = "",
  isTall = false,
  to,
  barTo,
}: TimeBarsProps) {
  const titleId = useId();
  const totals = times.map((_, index) =>
    series.reduce((sum, { values }) => sum + (values[index] ?? 0), 0),
  );
  const top = axisEnd(Math.max(0, ...totals));
  const [box, width] = useWidth();
  const step = (width - LEFT) / Math.max(1, times.length);
  const chartHeight = toHeight(width, isTall);
  const plot = chartHeight - BOTTOM - TOP;
  const gap = Math.min(4, step * 0.25);
  // An empty bar leads nowhere.
  const last = barTo ? totals.findLastIndex((total) => total > 0) : -1;
  return (
    <figure class="chart">
      <figcaption>
        <b id={titleId}>{to === undefined ? label : <a href={to}>{label}</a>}</b>
        <Legend series={series} />
      </figcaption>
      <div ref={box}>
        <svg
          viewBox={`0 0 ${width} ${chartHeight}`}
          role={last === -1 ? "img" : "group"}
          aria-labelledby={titleId}
          onKeyDown={walkBars}
        >
          <ValueAxis top={top} unit={unit} width={width} height={chartHeight} />
          {times.map((time, index) => {
            const said = series
              .map(({ name, values }) => `${name} ${shortNumber(values[index] ?? 0)}${unit}`)
              .join(", ");
            return (
              <Bar
                key={time}
                index={index}
                title={`${exactTime(time)}: ${said}`}
                left={LEFT + index * step}
                width={step}
                {...{ gap, plot, top, series }}
                to={(totals[index] ?? 0) > 0 ? barTo?.(index) : undefined}
                isTabbed={index === last}
              />
            );
          })}
          <TimeAxis times={times} step={step} height={chartHeight} />
        </svg>
      </div>
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
