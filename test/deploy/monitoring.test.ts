import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createProvider, modelConfig, type Provider } from "../e2e/provider.ts";
import { createWorld, type World } from "../e2e/world.ts";
import { DEPLOY, deployed, has, ROOT } from "./world.ts";

interface Rule {
  alert: string;
  expr: string;
  annotations: { summary: string };
}
interface Dashboard {
  panels: {
    title: string;
    gridPos: { x: number; y: number };
    targets: { expr: string; legendFormat: string }[];
  }[];
}

const rules = (
  parse(deployed("monitoring/alerts.yaml")) as { groups: { rules: Rule[] }[] }
).groups.flatMap(({ rules }) => rules);
const dashboard = JSON.parse(deployed("monitoring/dashboard.json")) as Dashboard;
const queries: [string, string][] = [
  ...rules.map(({ alert, expr }) => [alert, expr] as [string, string]),
  ...dashboard.panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }) => [title, expr] as [string, string]),
  ),
];
/** The labels that Prometheus itself adds to every series. */
const SCRAPED = ["job", "instance"];

interface Selector {
  metric: string;
  labels: { name: string; values: string[] }[];
}

/** The series that a query asks for, and the labels it groups them by. */
function read(query: string): { selectors: Selector[]; by: string[] } {
  const by = [...query.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, names]) =>
    (names ?? "").split(",").map((name) => name.trim()),
  );
  const plain = query.replaceAll(/\bby \([^)]*\)/g, "");
  const selectors = [...plain.matchAll(/\b([a-z_]+)(?:\{([^}]*)\})?/g)]
    .filter(
      ([whole, metric = ""]) =>
        (metric.includes("_") && !/^histogram_quantile$|^__/.test(metric)) || whole.includes("{"),
    )
    .map(([, metric = "", labels = ""]) => ({
      metric,
      labels: [...labels.matchAll(/(\w+)(=~|=)"([^"]*)"/g)].map(([, name = "", , value = ""]) => ({
        name,
        values: value.split("|"),
      })),
    }));
  return {
    selectors: selectors.filter(
      ({ metric }) => !metric.startsWith("rate_") && metric !== "rate_interval",
    ),
    by,
  };
}

let world: World;
let provider: Provider;
/** Label names and values of every metric of a gateway that has seen every kind of event. */
const live = new Map<string, Map<string, Set<string>>>();

/** A channel that can be looked at. */
const PIPE = `import { z } from "zod";
import { definePlugin } from "rouse/plugin";
export default definePlugin({
  id: "pipe",
  config: z.strictObject({}),
  channel: () => ({ send: async () => ({ status: "sent" }), probe: async () => ({ ok: true }) }),
});
`;

beforeAll(async () => {
  provider = await createProvider();
  provider.answer = () => "well";
  world = await createWorld({
    config: {
      ...modelConfig(provider),
      hooks: {
        mappings: [
          {
            id: "never",
            match: { path: "shop", payload: { type: "order" } },
            messageTemplate: "x",
          },
        ],
      },
      channels: { pipe: {} },
    },
    files: { "plugins/pipe.ts": PIPE },
  });
  await world.post("/hooks/agent", {
    message: "one",
    channel: "pipe",
    to: "me",
    wakeMode: "next-heartbeat",
  });
  await world.post("/hooks/shop", { type: "other" });
  await world.post(
    "/hooks/wake",
    { text: "x" },
    { authorization: "Bearer not-the-token-0123456789" },
  );
  const rendered = await world.until(async () => {
    const { body } = await world.admin("/metrics");
    return (
      /rouse_deliveries_total\{/.test(String(body)) &&
      /rouse_channel_up\{/.test(String(body)) &&
      String(body)
    );
  });
  for (const line of rendered.split("\n").filter((one) => one !== "" && !one.startsWith("#"))) {
    const [, name = "", labels = ""] = /^(\w+)(?:\{(.*)\})? /.exec(line) ?? [];
    const known = live.get(name) ?? new Map<string, Set<string>>();
    for (const [, label = "", value = ""] of labels.matchAll(/(\w+)="([^"]*)"/g))
      known.set(label, (known.get(label) ?? new Set()).add(value));
    live.set(name, known);
  }
});
afterAll(async () => {
  await world.stop();
  await provider.close();
});

/** Texts that stand in quotes in the source: states and outcomes are values of its types. */
const SOURCES = ["store", "intake", "http", "delivery"].map((folder) => join(ROOT, "src", folder));
const literals = new Set(
  execFileSync("grep", ["-rhoE", '"[a-z_A-Z]+"', ...SOURCES], { encoding: "utf8" })
    .split("\n")
    .map((text) => text.slice(1, -1)),
);

describe("alerts and dashboard", () => {
  it("there are some, and the reader knows a wrong one", () => {
    expect(rules.length).toBeGreaterThan(10);
    expect(dashboard.panels.length).toBeGreaterThan(5);
    expect(
      read('sum by (job, path) (increase(rouse_hooks_total{outcome="failed"}[15m])) > 5'),
    ).toEqual({
      selectors: [
        { metric: "rouse_hooks_total", labels: [{ name: "outcome", values: ["failed"] }] },
      ],
      by: ["job", "path"],
    });
    expect(live.has("rouse_hooks_totals")).toBe(false);
  });

  it.each(queries)("%s: every series of %s is in /metrics", (_name, query) => {
    const { selectors, by } = read(query);
    expect(selectors.length).toBeGreaterThan(0);
    for (const { metric, labels } of selectors) {
      if (metric === "up") continue;
      const known = live.get(metric);
      expect([metric, known !== undefined]).toEqual([metric, true]);
      for (const { name, values } of labels) {
        if (SCRAPED.includes(name)) continue;
        expect([metric, [...(known?.keys() ?? [])]]).toEqual([
          metric,
          expect.arrayContaining([name]),
        ]);
        for (const value of values)
          expect([
            name,
            value,
            known?.get(name)?.has(value) === true || literals.has(value),
          ]).toEqual([name, value, true]);
      }
    }
    const names = new Set([
      ...SCRAPED,
      ...selectors.flatMap(({ metric }) => [...(live.get(metric)?.keys() ?? [])]),
    ]);
    expect(by.filter((name) => !names.has(name))).toEqual([]);
  });

  it("labels that are shown are there", () => {
    const shown = rules.flatMap(({ annotations, expr }) =>
      [...annotations.summary.matchAll(/\$labels\.(\w+)/g)].map(([, name = ""]) => ({
        name,
        expr,
      })),
    );
    for (const { name, expr } of shown) {
      const { by, selectors } = read(expr);
      const kept =
        by.length > 0
          ? by
          : [
              ...SCRAPED,
              ...selectors.flatMap(({ metric }) => [...(live.get(metric)?.keys() ?? [])]),
            ];
      expect([expr, kept]).toEqual([expr, expect.arrayContaining([name])]);
    }
  });

  it("every alert is explained in docs/operations.md", () => {
    const page = readFileSync(join(ROOT, "docs/operations.md"), "utf8");
    expect(
      rules.map(({ alert }) => alert).filter((alert) => !page.includes(`\`${alert}\``)),
    ).toEqual([]);
  });

  it.skipIf(!has("promtool"))(
    "Prometheus takes the rules, and they fire when they should and not else",
    () => {
      const dir = mkdtempSync(join(tmpdir(), "rouse-alerts-"));
      try {
        copyFileSync(join(DEPLOY, "monitoring/alerts.yaml"), join(dir, "alerts.yaml"));
        copyFileSync(join(import.meta.dirname, "alerts.test.yaml"), join(dir, "alerts.test.yaml"));
        const checkedRules = spawnSync("promtool", ["check", "rules", "alerts.yaml"], {
          cwd: dir,
          encoding: "utf8",
        });
        expect([checkedRules.status, checkedRules.stderr]).toEqual([0, ""]);
        const tested = spawnSync("promtool", ["test", "rules", "alerts.test.yaml"], {
          cwd: dir,
          encoding: "utf8",
        });
        expect([tested.status, tested.stdout + tested.stderr]).toEqual([
          0,
          expect.stringContaining("SUCCESS"),
        ]);
      } finally {
        rmSync(dir, { recursive: true, force: true });
      }
    },
  );
});
