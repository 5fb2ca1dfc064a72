import { Button, Facts, Id, OutsideText, Section, Status, Time } from "../../ui/basic.tsx";
import { Spark, TimeBars } from "../../ui/chart.tsx";
import { JsonTree } from "../../ui/json-tree.tsx";

const STATES = ["succeeded", "running", "failed", "duplicate"];
const COLORS = [
  "--page",
  "--surface",
  "--raised",
  "--hover",
  "--selected",
  "--line",
  "--text",
  "--quiet",
  "--accent",
];
const SOFT = [
  "--good",
  "--good-soft",
  "--warn",
  "--warn-soft",
  "--bad",
  "--bad-soft",
  "--info",
  "--info-soft",
  "--quiet-soft",
  "--outside",
  "--plot-1",
  "--plot-2",
  "--plot-3",
  "--plot-4",
  "--plot-good",
  "--plot-warn",
  "--plot-bad",
  "--plot-quiet",
];
const SIZES = ["--text-xs", "--text-s", "--text-m", "--text-l", "--text-xl"];
const HOURS = Array.from({ length: 24 }, (_, hour) =>
  new Date(Date.UTC(2026, 0, 5, hour)).toISOString(),
);
const WAVE = HOURS.map((_, hour) => Math.round(40 + 30 * Math.sin(hour / 3)));
const BODY = {
  action: "opened",
  number: 2,
  merged: false,
  user: null,
  labels: ["bug", "payments"],
  head: { ref: "fix/total", "a b": "<b>" },
};

function Tokens({ theme }: { theme: string }) {
  return (
    <Section title="Colours and sizes" label={`Colours and sizes, ${theme}`}>
      <ul class="components-swatches">
        {[...COLORS, ...SOFT].map((name) => (
          <li key={name}>
            <svg width="32" height="20" aria-hidden="true">
              <rect width="32" height="20" rx="4" fill={`var(${name})`} />
            </svg>
            <code>{name}</code>
          </li>
        ))}
      </ul>
      {SIZES.map((name) => (
        <p key={name} style={{ fontSize: `var(${name})` }}>
          {name} Turns webhooks into work
        </p>
      ))}
    </Section>
  );
}

function Lines({ theme }: { theme: string }) {
  return (
    <Section
      title="States, times and ids"
      label={`States, times and ids, ${theme}`}
      actions={<Button>An action</Button>}
    >
      <p class="components-row">
        {STATES.map((word) => (
          <Status key={word} word={word} />
        ))}
        <Time iso={new Date(Date.now() - 200_000).toISOString()} />
        <Time iso={null} />
        <Id id="evt_1k80c0h5s6t7u8v9w0x1y2z3" to="#/events" />
      </p>
      <Facts
        pairs={[
          ["Path", "shop"],
          ["Mapping", <code>order.big</code>],
          ["Left out, because it is empty", null],
          [
            "Reason",
            "A text that is so long that it does not fit into one line where there is little room for the value",
          ],
        ]}
      />
      <OutsideText
        parts={[
          { text: "Order ", outside: false },
          { text: "7 \u202e<script>", outside: true },
          { text: " over ", outside: false },
          { text: "240", outside: true },
        ]}
      />
    </Section>
  );
}

/** The tokens, and what stands in lines and cells. */
export function Words({ theme }: { theme: string }) {
  return (
    <>
      <Tokens theme={theme} />
      <Lines theme={theme} />
      <Section title="Trees and plots" label={`Trees and plots, ${theme}`}>
        <JsonTree value={BODY} search="total" />
        <TimeBars
          label="Hooks an hour"
          times={HOURS}
          series={[
            { name: "accepted", color: "--good", values: WAVE },
            { name: "failed", color: "--bad", values: WAVE.map((value) => Math.round(value / 7)) },
          ]}
        />
        <p>
          <Spark values={WAVE} label="Hooks in the last day" /> 24 hours
        </p>
      </Section>
    </>
  );
}
