import type { Peer, PeerInfo, Cluster } from "#store-kit";
import type { Notifier } from "./notify.ts";
import type { Db } from "../client/db.ts";
import type { Membership } from "./membership.ts";
import { ALIVE, STEADY } from "./holders.ts";
import type { Leases } from "./leases.ts";

/** Gateways that were not heard of for longer are not listed. */
const LISTED = "1 hour";

interface PeerRow {
  gateway: string;
  seen: number;
  alive: boolean;
  steady: boolean;
  info: string | null;
}

/** The gateways of one database. */
export function createCluster(parts: {
  id: string;
  db: Db;
  membership: Membership;
  leases: Leases;
  notifier: Notifier;
}): Cluster {
  const { id, db, membership, leases, notifier } = parts;
  return {
    id,
    shared: true,
    reachable: membership.sure,
    responding: db.responding,
    hold: leases.hold,
    leases: leases.list,
    describe: membership.describe,
    async list() {
      const rows = await db.query<PeerRow>(
        `SELECT gateway, (extract(epoch FROM seen) * 1000)::bigint AS seen, ${ALIVE} AS alive,
          ${STEADY} AS steady, info
          FROM holders WHERE gateway IS NOT NULL AND seen > now() - interval '${LISTED}' ORDER BY id`,
      );
      return rows.map((row): Peer => ({
        id: row.gateway,
        self: row.gateway === id,
        lastSeen: row.seen,
        alive: row.alive,
        gone: !row.alive && membership.steady() && row.steady,
        info: row.info === null ? undefined : (JSON.parse(row.info) as PeerInfo),
      }));
    },
    tell: (topic, values) => notifier.say(topic, values),
    on: notifier.on,
  };
}
