import type { Peer, Cluster } from "../store/types.ts";

export type GatewayView = ReturnType<typeof gatewayView>;

const gatewayView = ({ id, self, lastSeen, alive, info }: Peer) => ({
  id,
  self,
  host: info?.host ?? null,
  pid: info?.pid ?? null,
  version: info?.version ?? null,
  url: info?.url ?? null,
  /** The hash of the config in use and its files, without what belongs to a machine. */
  snapshot: info?.snapshot ?? null,
  workers: info?.workers ?? null,
  startedAt: info ? new Date(info.startedAt).toISOString() : null,
  lastSeen: new Date(lastSeen).toISOString(),
  alive,
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
    return { name, holder, host, pid, since: new Date(since).toISOString() };
  });
  return { gateways, leases };
}
