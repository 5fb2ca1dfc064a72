import type { Peer, Peers } from "../store/types.ts";

/** A gateway of the store, for the operator. */
export interface GatewayView {
  id: string;
  self: boolean;
  host: string | null;
  pid: number | null;
  version: string | null;
  url: string | null;
  /** The hash of the config in use and its files, without what belongs to a machine. */
  snapshot: string | null;
  workers: boolean | null;
  startedAt: string | null;
  lastSeen: string;
  alive: boolean;
}

/** Who does what only one gateway does at a time. `holder`, `host` and `pid` are null where nobody does just now. */
export interface LeaseView {
  name: string;
  holder: string | null;
  host: string | null;
  pid: number | null;
  since: string;
}

const gatewayView = ({ id, self, lastSeen, alive, info }: Peer): GatewayView => ({
  id,
  self,
  host: info?.host ?? null,
  pid: info?.pid ?? null,
  version: info?.version ?? null,
  url: info?.url ?? null,
  snapshot: info?.snapshot ?? null,
  workers: info?.workers ?? null,
  startedAt: info ? new Date(info.startedAt).toISOString() : null,
  lastSeen: new Date(lastSeen).toISOString(),
  alive,
});

/** The gateways of this store, and who of them does what. */
export async function gatewaysOf(peers: Pick<Peers, "list" | "leases">): Promise<{ gateways: GatewayView[]; leases: LeaseView[] }> {
  const [list, records] = await Promise.all([peers.list(), peers.leases()]);
  const gateways = list.map(gatewayView);
  const leases = records.map(({ name, holder = null, since }): LeaseView => {
    const { host = null, pid = null } = gateways.find((one) => one.id === holder) ?? {};
    return { name, holder, host, pid, since: new Date(since).toISOString() };
  });
  return { gateways, leases };
}
