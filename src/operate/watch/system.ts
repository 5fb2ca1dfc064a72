import { maskConfig } from "../../config/mask.ts";
import { keepSenderSecret } from "../../config/state.ts";
import { RouseError, safeError, type Issue } from "../../core/errors.ts";
import { found } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull, pick, pickOrNull } from "../records/views.ts";
import { countWaiting } from "./activity.ts";
import {
  mergeUsage,
  NO_USAGE,
  type Peer,
  type Cluster,
  type UsageQuery,
  type UsageSum,
} from "../../store/types.ts";
import { open, rm, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { backupKnowledge } from "../../knowledge/backup.ts";

export function listAgents({ snapshot }: AdminDeps) {
  const { list, default: first } = snapshot().agents;
  const agents = list.map((agent) => ({
    ...pick(agent, "id", "name", "model", "tools"),
    ...pickOrNull(agent, "description", "thinking"),
    /** The main session is this one's. */
    standard: agent.id === first.id,
  }));
  return { agents };
}

/** Tells what the gateway is doing, what is kept, and what waits. */
export async function showStatus(deps: AdminDeps) {
  const counting = deps.store.counts();
  const [counts, waiting] = await Promise.all([counting, countWaiting(deps, counting)]);
  const now = deps.status();
  return {
    status: { ...now, startedAt: iso(now.startedAt), counts, waiting },
  };
}

/** The most open approvals that the details of `/readyz` name. */
const MAX_APPROVALS = 20;

/** The details of `/readyz`. */
export async function showReadiness(deps: AdminDeps) {
  const counts = await deps.store.counts();
  const open = counts["approvals.open"]
    ? await deps.approvals.list({ state: "open", limit: MAX_APPROVALS })
    : [];
  const approvals = open.map((approval) => ({
    ...pick(approval, "code", "tool", "agentId", "runId"),
    askedAt: iso(approval.askedAt),
    expiresAt: iso(approval.expiresAt),
  }));
  return { ...deps.status(), counts, approvals, ...(await describeGateways(deps.cluster)) };
}

/** Lists requests that were denied since the start, newest first. */
export function listDenials(deps: AdminDeps, { limit }: { limit: number }) {
  const newest = deps.denials.list().slice(-limit).toReversed();
  return { refusals: newest.map((denial) => ({ ...denial, at: iso(denial.at) })) };
}

/** The config in use, with its secrets masked. */
export function showConfig({ snapshot }: AdminDeps) {
  return { config: maskConfig(snapshot().config) };
}

/** @throws RouseError `config_invalid`: the config has problems, and the one before it stays in use. */
export async function reloadConfig(deps: AdminDeps) {
  const reloaded = await deps.reloader.reload();
  if (reloaded.ok) return { hash: reloaded.hash };
  const message = "the config has problems; the one before it stays in use";
  throw new RouseError({ code: "config_invalid", message, issues: reloaded.issues });
}

const candidatesFor = (deps: AdminDeps, path: string) =>
  deps.signatures().find((state) => state.path === path)?.candidates ?? [];

/** Lists the secrets that requests brought to a path whose own is `pending`. */
export function listSecretCandidates(deps: AdminDeps, path: string) {
  return {
    candidates: candidatesFor(deps, path).map((candidate) => ({
      ...candidate,
      at: iso(candidate.at),
    })),
  };
}

/**
 * Keeps one of these secrets in a file of the state folder.
 * @throws RouseError `not_found`
 */
export async function acceptSecret(deps: AdminDeps, { path, id }: { path: string; id: number }) {
  const { secret } = found(
    candidatesFor(deps, path).find((candidate) => candidate.id === id),
    {
      code: "not_found",
      message:
        "this path has no such secret to accept: `rouse hooks <path> --accept` lists those that came since the gateway started",
    },
  );
  return { file: await keepSenderSecret(deps.status().stateDir, path, secret), secret };
}

export type GatewayView = ReturnType<typeof gatewayView>;

const gatewayView = (peer: Peer) => ({
  ...pick(peer, "id", "self", "alive"),
  /** `snapshot`: the hash of the config in use and its files, without what belongs to a machine. */
  ...pickOrNull(peer.info, "host", "pid", "version", "url", "snapshot", "workers"),
  startedAt: isoOrNull(peer.info?.startedAt),
  lastSeen: iso(peer.lastSeen),
});

/**
 * Lists the gateways of this store, and which one does what only one gateway does at a time. `holder`, `host` and `pid` are
 * null while no gateway does it.
 */
export async function describeGateways(cluster: Pick<Cluster, "list" | "leases">) {
  const [list, records] = await Promise.all([cluster.list(), cluster.leases()]);
  const gateways = list.map(gatewayView);
  const leases = records.map(({ name, holder = null, since }) => {
    const { host = null, pid = null } = gateways.find((one) => one.id === holder) ?? {};
    return { name, holder, host, pid, since: iso(since) };
  });
  return { gateways, leases };
}

const usage = (message: string): RouseError =>
  new RouseError({ code: "usage", message: `file: ${message}` });

/** Makes the file first, so that no moment passes in which others could read it. */
async function createPrivateFile(file: string): Promise<void> {
  if (!isAbsolute(file)) throw usage("write an absolute path");
  try {
    await (await open(file, "wx", 0o600)).close();
  } catch (error) {
    const { code } = safeError(error);
    throw usage(
      code === "EEXIST"
        ? "it is there already; name a new one"
        : `it cannot be made there (${code ?? "unknown"})`,
    );
  }
}

/**
 * Copies the store into a new file while it is in use, and beside it the documents, if there are any (`knowledge`).
 * @throws RouseError `usage` if the file cannot be made, `store_unavailable` if the copy fails.
 */
export async function backupStore(deps: AdminDeps, file: string) {
  const started = performance.now();
  await createPrivateFile(file);
  try {
    await deps.store.backup(file);
    const knowledge = await backupKnowledge(deps.status().stateDir, file);
    const { size } = await stat(file);
    return {
      file,
      bytes: size,
      seconds: (performance.now() - started) / 1000,
      ...(knowledge ? { knowledge } : {}),
    };
  } catch (error) {
    await rm(file, { force: true });
    if (error instanceof RouseError && error.code === "usage") throw error;
    const { code, name } = safeError(error);
    throw new RouseError({
      code: "store_unavailable",
      message: `the copy could not be made (${code ?? name}); is there room for it?`,
    });
  }
}

/** The mapping that a field of the config belongs to: the longest place that the path begins with. */
function findOwner(path: string, mappings: readonly { id: string; at: string }[]): string | null {
  const owners = mappings.filter(
    ({ at }) => path.startsWith(at) && /^(?:[.[]|$)/.test(path.slice(at.length)),
  );
  return owners.toSorted((one, other) => other.at.length - one.at.length)[0]?.id ?? null;
}

/** One thing about the config and its mappings that should be looked at. */
export type Finding = ReturnType<typeof listFindings>["findings"][number];

/** Lists what lint has found, the problems of the config on disk, and mappings in shadow. */
export function listFindings({ snapshot, status }: AdminDeps) {
  const { mappings: set, warnings } = snapshot();
  const { mappings } = set;
  const toFinding = (
    from: "config" | "lint" | "shadow",
    issue: Issue,
    mapping = findOwner(issue.path, mappings),
  ) => ({
    /** `config`: the file on disk cannot be used. `lint`: mappings. `shadow`: a mapping that starts nothing. */
    from,
    /** `path`: the field of the config. */
    ...pick(issue, "path", "message"),
    /** The id of the mapping that it is about; null if it is about another thing. */
    mapping,
    /** The file and its line, if they are known. */
    ...pickOrNull(issue, "file", "line"),
  });
  const inShadow = mappings.filter(({ shadow, enabled }) => shadow && enabled);
  return {
    findings: [
      ...status().reloadProblems.map((issue) => toFinding("config", issue)),
      ...warnings.map((issue) => toFinding("lint", issue)),
      ...inShadow.map(({ id, at: path }) => {
        const message = `starts nothing: \`rouse hooks enable ${id}\` makes it live`;
        return toFinding("shadow", { path, message }, id);
      }),
    ],
  };
}

export { USAGE_KEYS } from "../../store/types.ts";

/** Adds up what the runs that were created since then and have ended have used: as far back as the store keeps runs. */
export async function readUsage({ store }: AdminDeps, { by, since }: UsageQuery) {
  const rows = await store.runs.sumUsage({ by, since });
  const [total = { ...NO_USAGE, key: "total" }] = mergeUsage(
    rows.map((row) => ({ ...row, key: "total" })),
  );
  const order =
    by === "day"
      ? (a: UsageSum, b: UsageSum) => (a.key < b.key ? 1 : -1)
      : (a: UsageSum, b: UsageSum) =>
          (b.costUsd ?? 0) - (a.costUsd ?? 0) || b.outputTokens - a.outputTokens;
  return { by, since: iso(since), rows: rows.toSorted(order), total };
}
