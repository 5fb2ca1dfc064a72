/** Rows of hooks that are accepted: each against the echo, or against a gateway that has less to do. */
import { PRESETS_DIR, presetNames } from "../src/mapping/presets.ts";
import { AGENT, AGENT_ALONE, PULL_REQUEST, SIGNED_PULL_REQUEST, WAKE } from "./bodies.ts";
import { compare, toRow, type Row, type Side, type Timing } from "./measure.ts";
import { withModel } from "./model.ts";
import { startEcho, startGateway, withServers, type GatewayOptions } from "./servers.ts";

/** A gateway without workers, and what is posted to it. */
export interface Subject extends Omit<Side, "server" | "settle"> {
  config?: object;
  options?: GatewayOptions;
}

export type HookRow = Omit<Row, "value"> & { subject: Subject; against: Subject | "echo" };

const AGENT_SIDE = { path: "/hooks/agent", body: AGENT };
const KB = Math.round(PULL_REQUEST.length / 1000);
const SIX =
  "{{pull_request.title}} {{pull_request.number}} {{sender.login}} {{repository.full_name}} {{pull_request.head.ref}} {{pull_request.base.ref}}";
const mapping = (id: string, more: object = {}): object => ({
  id,
  match: { path: "pr", payload: { action: "opened", "repository.full_name": "Codertocat/Hello-World" } },
  messageTemplate: SIX,
  deliver: false,
  wakeMode: "next-heartbeat",
  ...more,
});
const others = Array.from({ length: 999 }, (_, index) =>
  mapping(`m${index}`, { match: { path: "pr", payload: { action: "opened", "repository.full_name": `other/${index}` } } }),
);
const mapped = (mappings: object[]): Subject => ({ config: { hooks: { mappings } }, path: "/hooks/pr", body: PULL_REQUEST });
const MODULE = "export default ({ payload }) => ({ message: `${payload.pull_request.title} ${payload.pull_request.number}` });";
const SIGN = { secret: "bench-signing-secret-0123456789", header: "X-Hub-Signature-256", prefix: "sha256=" };
const byHookToken = (use: string): object => ({ use, auth: "token" });
const withPresets = (presets: object[]): Subject => ({ config: { hooks: { presets } }, path: "/hooks/github", body: PULL_REQUEST });
const allPresets = presetNames(PRESETS_DIR).map(byHookToken);

const section = "Hooks on SQLite";
export const HOOK_ROWS: Record<string, HookRow> = {
  agent: { section, row: "durable agent", target: { least: 0.65 }, moonshot: 0.9, subject: AGENT_SIDE, against: "echo" },
  wake: {
    section,
    row: "durable wake",
    target: { least: 0.65 },
    moonshot: 0.9,
    subject: { path: "/hooks/wake", body: WAKE },
    against: "echo",
  },
  mapped: {
    section,
    row: `mapped, ${KB} KB, six fields`,
    target: { least: 0.75 },
    moonshot: 0.9,
    subject: mapped([mapping("pr")]),
    against: "echo",
  },
  signed: {
    section,
    row: `signed, ${KB} KB (HMAC-SHA256), no body twice`,
    target: { least: 0.5 },
    moonshot: 0.6,
    subject: {
      config: { hooks: { presets: [{ use: "github", secret: SIGN.secret }] } },
      path: "/hooks/github",
      body: SIGNED_PULL_REQUEST,
      sign: SIGN,
    },
    against: "echo",
  },
  "1000": {
    section,
    row: "1,000 mappings against one",
    target: { least: 0.9 },
    subject: mapped([...others, mapping("pr")]),
    against: mapped([mapping("pr")]),
  },
  transform: {
    section,
    row: "with a transform module against without",
    target: { least: 0.35 },
    subject: { ...mapped([mapping("pr", { transform: { module: "t.js" } })]), options: { files: { "transforms/t.js": MODULE } } },
    against: mapped([mapping("pr")]),
  },
  presets: {
    section,
    row: `${allPresets.length} presets against one`,
    target: { least: 0.91 },
    subject: withPresets(allPresets),
    against: withPresets([byHookToken("github")]),
  },
};

const start = ({ config = {}, options }: Subject) => startGateway(config, { ...options, workers: false });

/** The p99 of the subject against that of the echo, beside the row itself. */
const p99Row = (part: Section, row: string, one: Compared): Row => ({
  section: part,
  row,
  value: one.p99Ratio,
  target: { most: 2 },
  moonshot: 1.5,
  p99: one.p99,
});
type Section = Row["section"];
type Compared = Awaited<ReturnType<typeof compare>>[number];

/** Measures one row. That of durable agents also gives the row of its p99. */
export async function hookRow(name: string, timing: Timing): Promise<Row[]> {
  const { subject, against, ...row } = HOOK_ROWS[name] as HookRow;
  return withServers([start(subject), against === "echo" ? startEcho() : start(against)], async ([gateway, other]) => {
    const ours = { ...subject, server: gateway };
    const theirs = against === "echo" ? { ...ours, path: "/echo" } : against;
    const [one] = await compare({ ...theirs, server: other }, [ours], timing);
    if (!one) return [];
    const p99 = name === "agent" ? [p99Row(section, "p99 of durable agent against the echo's p99", one)] : [];
    return [toRow(one, row), ...p99];
  });
}

/** Agent hooks while workers carry out their runs, with a model that answers at once. */
export async function withWorkers(timing: Timing): Promise<Row[]> {
  const rows: Row[] = [];
  for (const body of [AGENT, AGENT_ALONE])
    await withModel(async ({ config, reached }) =>
      withServers([startGateway(config), startEcho()], async ([gateway, echo]) => {
        const side = { path: "/hooks/agent", body };
        let accepted = 0;
        // Runs of one session follow each other: what a round leaves over would take minutes.
        const settle = body === AGENT ? {} : { settle: (hooks: number) => reached((accepted += hooks)) };
        const [one] = await compare({ ...side, path: "/echo", server: echo }, [{ ...side, ...settle, server: gateway }], timing);
        const row =
          body === AGENT
            ? { row: "durable agent while workers run, all in one session", target: { least: 0.45 }, moonshot: 0.6 }
            : { row: "durable agent while workers run, each in a session of its own" };
        if (one) rows.push(toRow(one, { section, ...row }));
      }),
    );
  return rows;
}

/** Agent hooks with the store at `url`, and their p99. */
export async function onPostgres(url: string, timing: Timing): Promise<Row[]> {
  const part = "Hooks on PostgreSQL";
  return withServers([startGateway({ store: { url } }, { workers: false }), startEcho()], async ([gateway, echo]) => {
    const [one] = await compare({ ...AGENT_SIDE, path: "/echo", server: echo }, [{ ...AGENT_SIDE, server: gateway }], timing);
    if (!one) return [];
    const row = { section: part, row: "durable agent, one gateway", target: { least: 0.4 }, moonshot: 0.6 } as const;
    return [toRow(one, row), p99Row(part, "p99 of durable agent, one gateway, against the echo's p99", one)];
  });
}
