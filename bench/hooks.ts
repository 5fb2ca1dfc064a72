/** Rows of hooks that are accepted: each against the echo, or against a gateway that has less to do. */
import { listJson } from "../src/core/files.ts";
import { PRESETS_DIR } from "../src/mapping/presets.ts";
import { AGENT, AGENT_ALONE, PULL_REQUEST, SIGNED_PULL_REQUEST, WAKE } from "./bodies.ts";
import {
  CONNECTIONS,
  countErrors,
  floodInTurn,
  medianBy,
  toRow,
  type Row,
  type Side,
  type Timing,
} from "./measure.ts";
import { withModel } from "./model.ts";
import {
  startDurableEcho,
  startEcho,
  startGateway,
  withServers,
  type GatewayOptions,
} from "./servers.ts";

/** A gateway without workers, and what is posted to it. */
export interface Subject extends Omit<Side, "server" | "settle" | "connections"> {
  config?: object;
  options?: GatewayOptions;
}

export interface HookRow {
  row: string;
  subject: Subject;
  /** "echo": the durable one, with so many connections, and beside it the plain one. */
  against: Subject | "echo";
  connections?: readonly number[];
}

const AGENT_SIDE = { path: "/hooks/agent", body: AGENT };
const KB = Math.round(PULL_REQUEST.length / 1000);
const SIX =
  "{{pull_request.title}} {{pull_request.number}} {{sender.login}} {{repository.full_name}} {{pull_request.head.ref}} {{pull_request.base.ref}}";
const mapping = (id: string, more: object = {}): object => ({
  id,
  match: {
    path: "pr",
    payload: { action: "opened", "repository.full_name": "Codertocat/Hello-World" },
  },
  messageTemplate: SIX,
  deliver: false,
  wakeMode: "next-heartbeat",
  ...more,
});
const others = Array.from({ length: 999 }, (_, index) =>
  mapping(`m${index}`, {
    match: { path: "pr", payload: { action: "opened", "repository.full_name": `other/${index}` } },
  }),
);
const mapped = (mappings: object[]): Subject => ({
  config: { hooks: { mappings } },
  path: "/hooks/pr",
  body: PULL_REQUEST,
});
const MODULE =
  "export default ({ payload }) => ({ message: `${payload.pull_request.title} ${payload.pull_request.number}` });";
const SIGN = {
  secret: "bench-signing-secret-0123456789",
  header: "X-Hub-Signature-256",
  prefix: "sha256=",
};
const byHookToken = (use: string): object => ({ use, auth: "token" });
const withPresets = (presets: object[]): Subject => ({
  config: { hooks: { presets } },
  path: "/hooks/github",
  body: PULL_REQUEST,
});
const allPresets = listJson(PRESETS_DIR).map(byHookToken);

export const HOOK_ROWS: Record<string, HookRow> = {
  agent: {
    row: "`POST /hooks/agent`",
    connections: [16, 64, 256],
    subject: AGENT_SIDE,
    against: "echo",
  },
  wake: {
    row: "`POST /hooks/wake`",
    subject: { path: "/hooks/wake", body: WAKE },
    against: "echo",
  },
  mapped: {
    row: `a mapping with six fields, body of ${KB} KB`,
    subject: mapped([mapping("pr")]),
    against: "echo",
  },
  signed: {
    row: `a signed preset (HMAC-SHA256), no body of ${KB} KB twice`,
    subject: {
      config: { hooks: { presets: [{ use: "github", secret: SIGN.secret }] } },
      path: "/hooks/github",
      body: SIGNED_PULL_REQUEST,
      sign: SIGN,
    },
    against: "echo",
  },
  "many-mappings": {
    row: "1,000 mappings against one",
    subject: mapped([...others, mapping("pr")]),
    against: mapped([mapping("pr")]),
  },
  transform: {
    row: "with a transform module against without",
    subject: {
      ...mapped([mapping("pr", { transform: { module: "t.js" } })]),
      options: { files: { "transforms/t.js": MODULE } },
    },
    against: mapped([mapping("pr")]),
  },
  presets: {
    row: `${allPresets.length} presets against one`,
    subject: withPresets(allPresets),
    against: withPresets([byHookToken("github")]),
  },
};

const start = ({ config = {}, options }: Subject) =>
  startGateway(config, { ...options, workers: false });

/** Measures a server against the durable and the plain echo, with each number of connections. */
function againstEchoes(
  side: Side,
  row: string,
  timing: Timing,
  connections: readonly number[] = [CONNECTIONS],
): Promise<Row[]> {
  return withServers([startDurableEcho(), startEcho()], async ([durable, plain]) => {
    const { body, sign } = side;
    const rows: Row[] = [];
    for (const count of connections) {
      const echo = { path: "/echo", body, ...(sign && { sign }), connections: count };
      const sides = [
        { ...echo, server: durable },
        { ...echo, server: plain },
        { ...side, connections: count },
      ];
      const [theirs = [], free = [], ours = []] = await floodInTurn(sides, timing);
      rows.push(toRow({ row, connections: count }, ours, theirs, free));
    }
    return rows;
  });
}

/** Measures one row of `HOOK_ROWS`. */
export function hookRow(name: string, timing: Timing): Promise<Row[]> {
  const { subject, against, row, connections } = HOOK_ROWS[name] as HookRow;
  return withServers([start(subject)], async ([gateway]) => {
    const ours = { ...subject, server: gateway };
    if (against === "echo") return againstEchoes(ours, row, timing, connections);
    return withServers([start(against)], async ([other]) => {
      const [theirs = [], measured = []] = await floodInTurn(
        [{ ...against, server: other }, ours],
        timing,
      );
      return [toRow({ row }, measured, theirs)];
    });
  });
}

/** A gateway with workers whose model answers immediately; `settle` waits until the runs of its hooks have ended. */
const withWorkers = <T>(work: (side: Side) => Promise<T>): Promise<T> =>
  withModel(({ config, reached }) =>
    withServers([startGateway(config)], ([server]) => {
      let accepted = 0;
      const settle = (hooks: number): Promise<void> => reached((accepted += hooks));
      return work({ server, path: "/hooks/agent", body: AGENT_ALONE, settle });
    }),
  );

/** Agent hooks while workers carry out their runs, each in a session of its own. */
export const acceptWithRuns = (timing: Timing): Promise<Row[]> =>
  withWorkers((side) =>
    againstEchoes(side, "`POST /hooks/agent` while runs are carried out", timing, [16, 64]),
  );

export const OPEN_LOOP_PER_SECOND = 300;
/** A round has enough hooks for a 99th percentile. */
const OPEN_LOOP_FACTOR = 5;

/** Agent hooks that come at a fixed rate, while workers carry out their runs, beside the durable echo. */
export const openLoop = ({ ms, rounds }: Timing): Promise<Row[]> =>
  withWorkers((side) =>
    withServers([startDurableEcho()], async ([durable]) => {
      const perSecond = OPEN_LOOP_PER_SECOND;
      const sides = [
        { ...side, perSecond },
        { server: durable, path: "/echo", body: side.body, perSecond },
      ];
      const measured = await floodInTurn(sides, { ms: ms * OPEN_LOOP_FACTOR, rounds });
      return ["`POST /hooks/agent` with its run", "the durable echo"].flatMap((name, index) => {
        const list = measured[index] ?? [];
        const row = (what: string, read: (one: (typeof list)[number]) => number): Row => ({
          row: `${name}: ${what}`,
          value: medianBy(list, read),
          unit: "ms",
          errors: countErrors(list),
        });
        return [row("median", ({ p50 }) => p50), row("p99", ({ p99 }) => p99)];
      });
    }),
  );

/** Agent hooks with the store at `url`. */
export const onPostgres = (url: string, timing: Timing): Promise<Row[]> =>
  withServers([startGateway({ store: { url } }, { workers: false })], ([server]) =>
    againstEchoes({ ...AGENT_SIDE, server }, "`POST /hooks/agent`", timing, [16, 64, 256]),
  );
