import { stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { renderIssue } from "../../config/issues.ts";
import { safeError } from "../../core/errors.ts";
import { isLoopback } from "../../core/http/address.ts";
import { renderSpan, plural } from "../../core/text.ts";
import { getBodiesOverdue } from "../../store/sweeper.ts";
import { BROKEN, NO_ROUTE } from "../../store/types.ts";
import {
  ADVICE,
  checkLimits,
  checkLost,
  fail,
  warn,
  type Check,
  type Checks,
  type CheckView,
} from "./doctor-checks.ts";
import { describeGateways, type GatewayView } from "./system.ts";
import type { AdminDeps } from "../types.ts";
import { countWaiting } from "./activity.ts";
import { iso } from "../records/views.ts";

const BACKLOG_WARN_SECONDS = 60;
const MAX_LISTED = 100;

/** Names the problems behind the first one. */
const renderMore = ({ length }: readonly unknown[]): string =>
  length === 0 ? "" : ` (and ${length} more: \`rouse config validate\`)`;

/** The config in use. */
const CONFIG_CHECKS: Checks = {
  bind: (_deps, { config }) => {
    const { host, trustedProxies } = config.gateway;
    if (isLoopback(host)) return `listens on ${host} only`;
    if (trustedProxies.length > 0) return `listens on ${host}, behind gateway.trustedProxies`;
    return warn(
      `gateway.host ${host} can be reached from other machines without TLS: put a proxy before it and name it in gateway.trustedProxies, or use 127.0.0.1`,
    );
  },
  hooks: (_deps, { config, mappings }) => {
    const { enabled, path } = config.hooks;
    if (!enabled) return warn("hooks.enabled is false: hooks are answered 404");
    return `${path}/wake, ${path}/agent and ${plural(mappings.mappings.length, "mapping")}`;
  },
  ...ADVICE,
  model: (_deps, { models, agents }) => {
    const echoing = agents.list.filter(
      (agent) => models.resolve(agent.model).ok && agent.model.startsWith("builtin/"),
    );
    if (echoing.length === 0) return `${agents.default.id} uses ${agents.default.model}`;
    const names = echoing.map((agent) => agent.id).join(", ");
    return warn(
      `no model for ${names}: replies come from builtin/echo; set agents.defaults.model and a provider (\`rouse init\`), or a key in the environment`,
    );
  },
  config: (deps) => {
    const [found, ...more] = deps.status().reloadProblems;
    if (!found) return "the config in use is the one on disk";
    const { detail: _detail, ...first } = found;
    return fail(
      `the last change could not be taken over, the config before it is in use: ${renderIssue(first)}${renderMore(more)}`,
    );
  },
  warnings: (_deps, { warnings }) => {
    const [first, ...more] = warnings;
    if (!first) return "no problems found";
    return warn(`${first.path}: ${first.message}${renderMore(more)}`);
  },
};

/** Work that waits, and work that has failed. */
const WORK_CHECKS: Checks = {
  backlog: async (deps) => {
    const { turn: turns, delivery: deliveries } = await countWaiting(deps, deps.counts);
    const text = `waiting: ${plural(turns.count, "turn")}, ${plural(deliveries.count, "delivery", "deliveries")}`;
    const oldest = Math.max(turns.oldestSeconds, deliveries.oldestSeconds);
    if (oldest < BACKLOG_WARN_SECONDS) return text;
    const age = `${text}, the oldest for ${renderSpan(oldest)}`;
    const { "runs.waiting": asking = 0 } = await deps.counts;
    if (asking > 0 && deliveries.oldestSeconds < BACKLOG_WARN_SECONDS)
      return `${age}: ${plural(asking, "run waits", "runs wait")} for a person, and later runs of the same session behind, see \`approvals\``;
    return warn(
      deps.status().workers
        ? `${age}: raise agents.defaults.maxConcurrent, or see \`rouse runs --status running\``
        : `${age}: this gateway has no workers, start one without --no-workers`,
    );
  },
  runs: async ({ counts }) => {
    const { "runs.failed": failed = 0, "runs.timed_out": late = 0 } = await counts;
    return failed + late === 0
      ? "no run has failed"
      : warn(
          `${plural(failed + late, "run")} failed: \`rouse runs --status failed\`, then \`rouse events replay --failed\``,
        );
  },
  approvals: async ({ approvals, clock: { now } }, { approvers }) => {
    const open = await approvals.list({ state: "open", limit: MAX_LISTED });
    const oldest = open.at(-1);
    if (!oldest) return `no call waits for approval; who may decide: ${approvers.join(", ")}`;
    const count = open.length === MAX_LISTED ? `${MAX_LISTED} or more` : open.length;
    const leftMs = oldest.expiresAt - now();
    const left =
      leftMs <= 0
        ? "which is over: its run continues without it"
        : `in ${renderSpan(leftMs / 1000)}`;
    return warn(
      `calls that wait for approval: ${count}; ${oldest.code} (${oldest.tool} by the agent ${oldest.agentId}) waits longest, until ${iso(oldest.expiresAt)}, ${left}: \`rouse approvals\``,
    );
  },
  deliveries: async ({ counts }) => {
    const { "deliveries.failed": failed = 0, "deliveries.unknown": unknown = 0 } = await counts;
    return failed + unknown === 0
      ? "no delivery has failed"
      : warn(
          `${plural(failed, "delivery", "deliveries")} failed and ${unknown} may not have arrived: \`rouse deliveries --status failed\``,
        );
  },
  routes: async ({ store, counts }) => {
    const { "deliveries.no_route": count = 0 } = await counts;
    const [newest] = count === 0 ? [] : await store.deliveries.list({ status: NO_ROUTE, limit: 1 });
    if (!newest) return "no reply is without a route";
    const run = await store.runs.get(newest.runId);
    const source =
      run?.mapping === undefined
        ? `"${run?.spec.hook ?? newest.runId}"`
        : `the mapping "${run.mapping}"`;
    return warn(
      `replies without a route: ${count}, the newest of ${source}: ${newest.error?.message ?? ""}; then \`rouse deliveries retry --status no_route\` sends them`,
    );
  },
  events: async ({ store, counts }) => {
    const { "events.failed": failed = 0 } = await counts;
    const newest =
      failed === 0 ? [] : await store.events.list({ outcome: "failed", limit: MAX_LISTED });
    const broken = newest.filter(({ reason, handled }) => reason?.startsWith(BROKEN) && !handled);
    const [first] = broken;
    if (!first)
      return "no accepted event is broken, apart from those that were replayed or discarded";
    return warn(
      `accepted events whose work could not be queued: ${broken.length}, the newest ${first.id}: \`rouse explain --request\`, then \`rouse events replay\` or \`rouse events set --discard\``,
    );
  },
  "system-events": async ({ counts }) => {
    const { "systemEvents.parked": parked = 0 } = await counts;
    return parked === 0
      ? "no system event is parked"
      : warn(
          `${parked} system events were set aside after heartbeats kept failing on them: \`rouse sessions main\``,
        );
  },
};

const checkSignatures: Check = (deps) => {
  const states = deps.signatures();
  if (states.length === 0) return "no path requires a signature";
  const waiting = states.filter(({ candidates }) => candidates.length > 0);
  if (waiting.length > 0)
    return warn(
      waiting
        .map(({ path, candidates }) => {
          const list = candidates
            .map(({ id, address, at }) => `${id} from ${address} at ${iso(at)}`)
            .join(", ");
          return `"${path}" has no secret yet, and anyone may have sent these: ${list}; \`rouse hooks ${path} --accept <number>\` takes the one that is the sender's`;
        })
        .join("; "),
    );
  const old = states.find(({ last }) => last !== undefined && last.of > 1);
  if (old?.last) {
    const { secret, of, at } = old.last;
    return `"${old.path}" was signed last with secret ${secret + 1} of ${of}, at ${iso(at)}: remove the other secrets once no sender uses them`;
  }
  const seen = states.filter(({ last }) => last !== undefined).length;
  return `${seen} of ${states.length} signed paths had a signature that fits since the start`;
};

/** Plugins, MCP servers, models and channels. */
const PART_CHECKS: Checks = {
  services: (deps) => {
    const states = deps.status().services;
    const failing = states.filter((service) => !service.ok);
    const render = (shown: typeof states): string =>
      shown.map(({ id, message }) => `${id}: ${message}`).join("; ");
    if (failing.length > 0) return fail(render(failing));
    return states.length === 0 ? "no plugin has a service" : render(states);
  },
  "mcp-servers": (deps) => {
    const states = deps.status().mcpServers.filter(({ state }) => state !== "idle");
    const failing = states.filter(({ state }) => state === "failing");
    if (failing.length > 0) {
      const texts = failing.map(
        ({ name, error, nextTryAt }) =>
          `${name}: ${error}${nextTryAt === undefined ? "" : `; next try at ${iso(nextTryAt)}`}`,
      );
      return fail(`${texts.join("; ")}. Runs go on without these tools: see mcp.servers`);
    }
    if (states.length === 0) return "no agent uses an MCP server";
    return states
      .map(({ name, state, tools }) => `${name}: ${state}, ${plural(tools, "tool")}`)
      .join("; ");
  },
  limits: checkLimits,
  breakers: (deps) => {
    const open = deps.status().breakers.filter(({ state }) => state !== "closed");
    if (open.length === 0) return "no model and no channel is away";
    const text = open.map(
      ({ of, since, nextTest, waiting }) =>
        `${of} since ${since}, tested next at ${nextTest}, ${waiting} wait for it here`,
    );
    return warn(
      `away: ${text.join("; ")}. What waits is started when a test succeeds: see the provider's or vendor's status page, and \`rouse runs --status parked\``,
    );
  },
};

const at = ({ host, pid }: Pick<GatewayView, "host" | "pid">): string =>
  `${host ?? "an unknown gateway"} (process ${pid ?? "?"})`;

/** Renders the values in which gateways differ, as `value: gateway, gateway`. */
function differences(
  gateways: readonly GatewayView[],
  of: (gateway: GatewayView) => string | null,
): string | undefined {
  const groups = Map.groupBy(gateways, (gateway) => of(gateway) ?? "unknown");
  if (groups.size < 2) return undefined;
  return [...groups].map(([value, those]) => `${value}: ${those.map(at).join(", ")}`).join("; ");
}

/** The gateways that share the store. */
const CLUSTER_CHECKS: Checks = {
  gateways: async ({ cluster }, { config }) => {
    if (!cluster.shared) return "no other gateway uses this store";
    const live = (await describeGateways(cluster)).gateways.filter((gateway) => gateway.alive);
    const told: string[] = [];
    const versions = differences(live, (gateway) => gateway.version);
    if (versions) told.push(`they run different versions (${versions}): bring all to the newest`);
    const configs = differences(live, (gateway) => gateway.snapshot?.slice(0, 12) ?? null);
    if (configs)
      told.push(
        `their configs, mapping files or transforms differ (${configs}): bring the same files to all: each takes them over by itself`,
      );
    if (!live.some((gateway) => gateway.workers))
      told.push("none of them has workers: start one without --no-workers");
    const open = [
      ...(config.hooks.token === undefined ? ["hooks.token"] : []),
      ...(config.gateway.token === undefined ? ["gateway.token"] : []),
    ];
    if (open.length > 0 && new Set(live.map((gateway) => gateway.host)).size > 1)
      told.push(
        `${open.join(" and ")} ${open.length > 1 ? "are" : "is"} not set, and each machine made its own: set the same in the config of all`,
      );
    if (told.length > 0) return warn(told.join("; "));
    return `${live.length} share the store, with the same version and config: ${live.map(at).join(", ")}`;
  },
};

const LITTLE_SPACE_MB = 200;
const DAY_MS = 86_400_000;

/** The machine that the gateway runs on: its files, its disk and its clock. */
const MACHINE_CHECKS: Checks = {
  "file-modes": async (deps) => {
    if (process.platform === "win32") return "file modes do not apply on this system";
    const { stateDir } = deps.status();
    const open: string[] = [];
    for (const name of ["", "rouse.db", "hook-token", "gateway-token", "gateway.json"]) {
      const found = await stat(join(stateDir, name)).catch(() => undefined);
      if (found && (found.mode & 0o077) !== 0)
        open.push(name === "" ? stateDir : join(stateDir, name));
    }
    return open.length === 0
      ? "the state folder is for its owner alone"
      : warn(`others can read ${open.join(", ")}: chmod go-rwx`);
  },
  "disk-space": async (deps) => {
    const disk = await statfs(deps.status().stateDir);
    const free = Math.floor((disk.bavail * disk.bsize) / 1e6);
    return free > LITTLE_SPACE_MB
      ? `${free} MB free`
      : fail(`only ${free} MB free for the state folder: hooks are refused once it is full`);
  },
  store: async (deps) => {
    try {
      await deps.store.commit((tx) => tx.values.set("doctor.at", deps.clock.now()));
      return "takes writes";
    } catch (error) {
      return fail(
        `takes no writes (${safeError(error).code ?? safeError(error).name}): hooks are answered 503; look at the disk of the state folder`,
      );
    }
  },
  bodies: async ({ store, clock: { now } }, { config }) => {
    const overdueMs = await getBodiesOverdue(store, now(), config.hooks.retention);
    if (overdueMs <= DAY_MS) return "bodies are removed when hooks.retention says";
    const days = Math.floor(overdueMs / DAY_MS);
    return fail(
      `the oldest body has been kept for ${plural(days, "day")} longer than hooks.retention: old records are not removed; look in the log for "old records could not be removed", and start a gateway with workers if none runs`,
    );
  },
};

const CHECKS: Checks = {
  ...CONFIG_CHECKS,
  ...WORK_CHECKS,
  signatures: checkSignatures,
  lost: checkLost,
  ...PART_CHECKS,
  ...CLUSTER_CHECKS,
  ...MACHINE_CHECKS,
};

/** Looks at everything that often goes wrong. A check that fails itself is a finding, too. */
export async function runChecks(deps: AdminDeps): Promise<CheckView[]> {
  const snapshot = deps.snapshot();
  const counts = deps.store.counts();
  // Without a count, those checks fail that need it.
  counts.catch(() => undefined);
  const checks: CheckView[] = [];
  for (const [id, check] of Object.entries(CHECKS)) {
    try {
      const found = await check({ ...deps, counts }, snapshot);
      checks.push({
        id,
        ...(typeof found === "string" ? { status: "ok" as const, message: found } : found),
      });
    } catch (error) {
      const { code, name } = safeError(error);
      checks.push({ id, ...fail(`could not be checked (${code ?? name})`) });
    }
  }
  const probes = (await deps.health.probeAll()).map(({ id, ok, message }): CheckView => ({
    id: `channel:${id}`,
    status: ok ? "ok" : "fail",
    message,
  }));
  return [...checks, ...probes];
}
