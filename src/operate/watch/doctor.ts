import { renderIssue } from "../../config/issues.ts";
import { safeError } from "../../core/errors.ts";
import { isLoopback } from "../../core/http/address.ts";
import { renderSpan, plural } from "../../core/text.ts";
import { BROKEN, NO_ROUTE } from "../../store/types.ts";
import {
  fail,
  passedCheck,
  warningCheck,
  type Check,
  type CheckView,
  limits,
  ADVICE,
  checkBodies,
  checkLost,
  checkRepeats,
  checkSenders,
} from "./doctor-checks.ts";
import { checkClock, checkModes, checkSpace, checkStore } from "./machine-checks.ts";
import { checkTools } from "../people/tools.ts";
import { describeGateways, type GatewayView } from "./system.ts";
import type { AdminDeps } from "../types.ts";
import { countWaiting } from "./activity.ts";

const BACKLOG_WARN_SECONDS = 60;
const MAX_LISTED = 100;

const bind: Check = (_deps, { config }) => {
  const { host, trustedProxies } = config.gateway;
  if (isLoopback(host)) return passedCheck(`listens on ${host} only`);
  if (trustedProxies.length > 0)
    return passedCheck(`listens on ${host}, behind gateway.trustedProxies`);
  return warningCheck(
    `gateway.host ${host} can be reached from other machines without TLS: put a proxy before it and name it in gateway.trustedProxies, or use 127.0.0.1`,
  );
};

const hooks: Check = (_deps, { config, mappings }) => {
  if (!config.hooks.enabled) return warningCheck("hooks.enabled is false: hooks are answered 404");
  return passedCheck(
    `${config.hooks.path}/wake, ${config.hooks.path}/agent and ${plural(mappings.mappings.length, "mapping")}`,
  );
};

const model: Check = (_deps, { models, agents }) => {
  const echoing = agents.list.filter(
    (agent) => models.resolve(agent.model).ok && agent.model.startsWith("builtin/"),
  );
  if (echoing.length === 0) return passedCheck(`${agents.default.id} uses ${agents.default.model}`);
  const names = echoing.map((agent) => agent.id).join(", ");
  return warningCheck(
    `no model for ${names}: replies come from builtin/echo; set agents.defaults.model and a provider (\`rouse init\`), or a key in the environment`,
  );
};

const reload: Check = (deps) => {
  const [found, ...more] = deps.status().reloadProblems;
  if (!found) return passedCheck("the config in use is the one on disk");
  const { detail: _detail, ...first } = found;
  const rest = more.length > 0 ? ` (and ${more.length} more: \`rouse config validate\`)` : "";
  return fail(
    `the last change could not be taken over, the config before it is in use: ${renderIssue(first)}${rest}`,
  );
};

const warnings: Check = async ({ hookShapes }, snapshot) => {
  const [first, ...more] = [...snapshot.warnings, ...(await hookShapes.recorded()).warnings];
  if (!first) return passedCheck("no problems found");
  return warningCheck(
    `${first.path}: ${first.message}${more.length > 0 ? ` (and ${more.length} more: \`rouse config validate\`)` : ""}`,
  );
};

/** Fields that are named at most. */
const MAX_CHANGES = 5;

const shapes: Check = async ({ hookShapes }) => {
  const { bodyChanges } = await hookShapes.recorded();
  if (bodyChanges.length === 0)
    return passedCheck("no field that mappings read has gone from the bodies of a hook");
  const more =
    bodyChanges.length > MAX_CHANGES ? `; and ${bodyChanges.length - MAX_CHANGES} more` : "";
  return warningCheck(
    `${bodyChanges
      .slice(0, MAX_CHANGES)
      .map(({ message }) => message)
      .join("; ")}${more}: the sender's bodies have changed, see \`rouse hooks <path>\``,
  );
};

const backlog: Check = async (deps) => {
  const counting = deps.store.counts();
  const { turn: turns, delivery: deliveries } = await countWaiting(deps, counting);
  const text = `waiting: ${plural(turns.count, "turn")}, ${plural(deliveries.count, "delivery", "deliveries")}`;
  const oldest = Math.max(turns.oldestSeconds, deliveries.oldestSeconds);
  if (oldest < BACKLOG_WARN_SECONDS) return passedCheck(text);
  const age = `the oldest for ${renderSpan(oldest)}`;
  const { "runs.waiting": asking = 0 } = await counting;
  if (asking > 0 && deliveries.oldestSeconds < BACKLOG_WARN_SECONDS)
    return passedCheck(
      `${text}, ${age}: ${plural(asking, "run waits", "runs wait")} for a person, and later runs of the same session behind, see \`approvals\``,
    );
  if (!deps.status().workers)
    return warningCheck(
      `${text}, ${age}: this gateway has no workers, start one without --no-workers`,
    );
  return warningCheck(
    `${text}, ${age}: raise agents.defaults.maxConcurrent, or see \`rouse runs --status running\``,
  );
};

const runs: Check = async ({ store }) => {
  const counts = await store.counts();
  const failed = (counts["runs.failed"] ?? 0) + (counts["runs.timed_out"] ?? 0);
  return failed === 0
    ? passedCheck("no run has failed")
    : warningCheck(
        `${plural(failed, "run")} failed: \`rouse runs --status failed\`, then \`rouse events replay --failed\``,
      );
};

const events: Check = async ({ store }) => {
  const { "events.failed": failed = 0 } = await store.counts();
  const newest =
    failed === 0 ? [] : await store.events.list({ outcome: "failed", limit: MAX_LISTED });
  const broken = newest.filter(({ reason, handled }) => reason?.startsWith(BROKEN) && !handled);
  const [first] = broken;
  if (!first)
    return passedCheck(
      "no accepted event is broken, apart from those that were replayed or discarded",
    );
  return warningCheck(
    `accepted events whose work could not be queued: ${broken.length}, the newest ${first.id}: \`rouse explain --request\`, then \`rouse events replay\` or \`rouse events set --discard\``,
  );
};

const approvals: Check = async ({ approvals: asked, clock: { now } }, { approvers }) => {
  const open = await asked.list({ state: "open", limit: MAX_LISTED });
  const oldest = open.at(-1);
  if (!oldest)
    return passedCheck(`no call waits for approval; who may decide: ${approvers.join(", ")}`);
  const count = open.length === MAX_LISTED ? `${MAX_LISTED} or more` : open.length;
  const leftMs = oldest.expiresAt - now();
  const left =
    leftMs <= 0 ? "which is over: its run continues without it" : `in ${renderSpan(leftMs / 1000)}`;
  const until = `${new Date(oldest.expiresAt).toISOString()}, ${left}`;
  return warningCheck(
    `calls that wait for approval: ${count}; ${oldest.code} (${oldest.tool} by the agent ${oldest.agentId}) waits longest, until ${until}: \`rouse approvals\``,
  );
};

const deliveries: Check = async ({ store }) => {
  const { "deliveries.failed": failed = 0, "deliveries.unknown": unknown = 0 } =
    await store.counts();
  if (failed + unknown === 0) return passedCheck("no delivery has failed");
  return warningCheck(
    `${plural(failed, "delivery", "deliveries")} failed and ${unknown} may not have arrived: \`rouse deliveries --status failed\``,
  );
};

const routes: Check = async ({ store }) => {
  const { "deliveries.no_route": count = 0 } = await store.counts();
  const [newest] = count === 0 ? [] : await store.deliveries.list({ status: NO_ROUTE, limit: 1 });
  if (!newest) return passedCheck("no reply is without a route");
  const run = await store.runs.get(newest.runId);
  const source =
    run?.mapping === undefined
      ? `"${run?.spec.hook ?? newest.runId}"`
      : `the mapping "${run.mapping}"`;
  return warningCheck(
    `replies without a route: ${count}, the newest of ${source}: ${newest.error?.message ?? ""}; then \`rouse deliveries retry --status no_route\` sends them`,
  );
};

const systemEvents: Check = async ({ store }) => {
  const { "systemEvents.parked": parked = 0 } = await store.counts();
  return parked === 0
    ? passedCheck("no system event is parked")
    : warningCheck(
        `${parked} system events were set aside after heartbeats kept failing on them: \`rouse sessions main\``,
      );
};

const signatures: Check = (deps) => {
  const states = deps.signatures();
  if (states.length === 0) return passedCheck("no path requires a signature");
  const waiting = states.filter(({ candidates }) => candidates.length > 0);
  if (waiting.length > 0)
    return warningCheck(
      waiting
        .map(({ path, candidates }) => {
          const list = candidates
            .map(({ id, address, at }) => `${id} from ${address} at ${new Date(at).toISOString()}`)
            .join(", ");
          return `"${path}" has no secret yet, and anyone may have sent these: ${list}; \`rouse hooks ${path} --accept <number>\` takes the one that is the sender's`;
        })
        .join("; "),
    );
  const old = states.find(({ last }) => last !== undefined && last.of > 1);
  if (old?.last) {
    const { secret, of, at } = old.last;
    return passedCheck(
      `"${old.path}" was signed last with secret ${secret + 1} of ${of}, at ${new Date(at).toISOString()}: remove the other secrets once no sender uses them`,
    );
  }
  const seen = states.filter(({ last }) => last !== undefined).length;
  return passedCheck(
    `${seen} of ${states.length} signed paths had a signature that fits since the start`,
  );
};

const services: Check = (deps) => {
  const states = deps.status().services;
  const failing = states.filter((service) => !service.ok);
  if (failing.length > 0)
    return fail(failing.map(({ id, message }) => `${id}: ${message}`).join("; "));
  return passedCheck(
    states.length === 0
      ? "no plugin has a service"
      : states.map(({ id, message }) => `${id}: ${message}`).join("; "),
  );
};

const mcpServers: Check = (deps) => {
  const states = deps.status().mcpServers.filter(({ state }) => state !== "idle");
  const failing = states.filter(({ state }) => state === "failing");
  const describe = ({ name, error, nextTryAt }: (typeof states)[number]): string =>
    `${name}: ${error}${nextTryAt === undefined ? "" : `; next try at ${new Date(nextTryAt).toISOString()}`}`;
  if (failing.length > 0)
    return fail(
      `${failing.map(describe).join("; ")}. Runs go on without these tools: see mcp.servers`,
    );
  if (states.length === 0) return passedCheck("no agent uses an MCP server");
  return passedCheck(
    states.map(({ name, state, tools }) => `${name}: ${state}, ${tools} tools`).join("; "),
  );
};

const breakers: Check = (deps) => {
  const open = deps.status().breakers.filter(({ state }) => state !== "closed");
  if (open.length === 0) return passedCheck("no model and no channel is away");
  const text = open.map(
    ({ of, since, nextTest, waiting }) =>
      `${of} since ${since}, tested next at ${nextTest}, ${waiting} wait for it here`,
  );
  return warningCheck(
    `away: ${text.join("; ")}. What waits is started when a test succeeds: see the provider's or vendor's status page, and \`rouse runs --status parked\``,
  );
};

const at = ({ host, pid }: Pick<GatewayView, "host" | "pid">): string =>
  `${host ?? "an unknown gateway"} (process ${pid ?? "?"})`;

/** What gateways say differently, as `value: who, who`. */
function differences(
  gateways: readonly GatewayView[],
  of: (gateway: GatewayView) => string | null,
): string | undefined {
  const groups = Map.groupBy(gateways, (gateway) => of(gateway) ?? "unknown");
  if (groups.size < 2) return undefined;
  return [...groups].map(([value, those]) => `${value}: ${those.map(at).join(", ")}`).join("; ");
}

const gateways: Check = async ({ cluster }, { config }) => {
  if (!cluster.shared) return passedCheck("no other gateway uses this store");
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
  if (told.length > 0) return warningCheck(told.join("; "));
  return passedCheck(
    `${live.length} share the store, with the same version and config: ${live.map(at).join(", ")}`,
  );
};

const leases: Check = async ({ cluster }) => {
  const found = await describeGateways(cluster);
  if (found.leases.length === 0) return passedCheck("no work is limited to one gateway");
  const text = found.leases
    .map(
      (lease) =>
        `${lease.name}: ${lease.holder === null ? "no gateway" : `${at(lease)} since ${lease.since}`}`,
    )
    .join("; ");
  const isLeft =
    found.leases.some((lease) => lease.holder === null) &&
    found.gateways.some((one) => one.alive && one.workers);
  return isLeft
    ? warningCheck(
        `${text}: what no gateway does goes to one with workers within 15 seconds; run the check again`,
      )
    : passedCheck(text);
};

/** The checks in the order in which they are shown. */
const CHECKS: Record<string, Check> = {
  bind,
  hooks,
  ...ADVICE,
  model,
  config: reload,
  warnings,
  backlog,
  runs,
  approvals,
  deliveries,
  routes,
  events,
  "system-events": systemEvents,
  signatures,
  senders: checkSenders,
  repeats: checkRepeats,
  lost: checkLost,
  shapes,
  services,
  "mcp-servers": mcpServers,
  tools: checkTools,
  limits,
  breakers,
  gateways,
  leases,
  "file-modes": checkModes,
  "disk-space": checkSpace,
  store: checkStore,
  bodies: checkBodies,
  clock: checkClock,
};

async function probes({ health }: AdminDeps): Promise<CheckView[]> {
  return (await health.probeAll()).map(({ id, ok: reached, message }) => ({
    id: `channel:${id}`,
    ...(reached ? passedCheck(message) : fail(message)),
  }));
}

/** Looks at everything that often goes wrong. A check that fails itself is a finding, too. */
export async function runChecks(deps: AdminDeps): Promise<CheckView[]> {
  const snapshot = deps.snapshot();
  const checks: CheckView[] = [];
  for (const [id, check] of Object.entries(CHECKS)) {
    try {
      checks.push({ id, ...(await check(deps, snapshot)) });
    } catch (error) {
      checks.push({
        id,
        ...fail(`could not be checked (${safeError(error).code ?? safeError(error).name})`),
      });
    }
  }
  return [...checks, ...(await probes(deps))];
}
