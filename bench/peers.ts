/** `npm run bench -- --peers --row peers`: programs that take hooks, and Rouse, against the durable and the plain echo. */
import { AGENT } from "./bodies.ts";
import { floodInTurn, toRow, type Row, type Side, type Timing } from "./measure.ts";
import { untilIdle, type Peer, type PeerSide } from "./peers/install.ts";
import { nodeRed, webhook } from "./peers/programs.ts";
import { bullmq, pgBoss, restate } from "./peers/stores.ts";
import { withSchema } from "./postgres.ts";
import { startDurableEcho, startEcho, startGateway, withServers } from "./servers.ts";

const rouse = (store: "SQLite" | "PostgreSQL", config: object): Peer => ({
  stores: true,
  sides: [{ row: `Rouse, ${store}`, path: "/hooks/agent" }],
  prepare: () => () => startGateway(config, { workers: false }),
});

/** Programs that store are measured with more connections, too: these share their syncs. */
const CONNECTIONS = { stores: [16, 64], forgets: [16] };

async function measure(peers: readonly Peer[], timing: Timing): Promise<Row[]> {
  const found = peers.flatMap((peer) => {
    const start = peer.prepare();
    if (!start) console.error(`${peer.sides[0]?.row}: left out, it cannot be installed here`);
    return start ? [{ peer, start }] : [];
  });
  const starts = [startDurableEcho(), startEcho(), ...found.map(({ start }) => start())];
  return withServers(starts, async ([durable, plain, ...servers]) => {
    if (!durable || !plain) return [];
    const rows: Row[] = [];
    for (const connections of CONNECTIONS.stores) {
      const measured = found.flatMap(({ peer }, index): (Side & PeerSide)[] => {
        const server = servers[index];
        const counts = peer.stores ? CONNECTIONS.stores : CONNECTIONS.forgets;
        return server && counts.includes(connections)
          ? peer.sides.map((side) => ({
              ...side,
              server,
              body: AGENT,
              connections,
              settle: () => untilIdle(server),
            }))
          : [];
      });
      const echo = { path: "/echo", body: AGENT, connections };
      const sides = [{ ...echo, server: durable }, { ...echo, server: plain }, ...measured];
      const [theirs = [], free = [], ...ours] = await floodInTurn(sides, timing);
      rows.push(
        ...measured.map(({ row, note }, index) =>
          toRow(
            { row, connections, ...(note !== undefined && { note }) },
            ours[index] ?? [],
            theirs,
            free,
          ),
        ),
      );
    }
    return rows;
  });
}

/** The rows of Rouse and of the programs that can be installed. */
export function peerRows(timing: Timing, postgres: boolean): Promise<Row[]> {
  const others = [bullmq, restate, webhook, nodeRed];
  if (!postgres) return measure([rouse("SQLite", {}), ...others], timing);
  return withSchema((ours) =>
    withSchema((theirs) =>
      measure(
        [
          rouse("SQLite", {}),
          rouse("PostgreSQL", { store: { url: ours } }),
          pgBoss(theirs),
          ...others,
        ],
        timing,
      ),
    ),
  );
}
