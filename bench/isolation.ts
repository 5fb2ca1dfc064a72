/** The row of honest hooks while another mapping of the same gateway is attacked. */
import { EXPRESSIONS, MAPPINGS, MODULES } from "./hostile.ts";
import { median, type Row, type Timing } from "./measure.ts";
import { load, startGateway, TOKEN, withServers } from "./servers.ts";

const ATTACKERS = 4;
const HONEST = JSON.stringify({ name: "Ann", place: { town: "Ulm" } });

/** Sends one honest hook after the other, first to the quiet gateway, then during each attack. The row has the worst attack. */
export function isolationRows({ ms, rounds }: Timing): Promise<Row[]> {
  const files = Object.fromEntries(
    Object.entries(MODULES).map(([name, text]) => [`transforms/${name}.js`, text]),
  );
  const config = { hooks: { transformTimeoutSeconds: 1, mappings: MAPPINGS } };
  return withServers([startGateway(config, { workers: false, files })], async ([{ port }]) => {
    const post = (path: string, body: string, connections: number) =>
      load({ port, path: `/hooks/${path}`, body, token: TOKEN, connections, ms });
    const honest = () => post("plain", HONEST, 1);
    await honest();
    const quiet: number[] = [];
    const attacked = new Map<string, number[]>();
    let errors = 0;
    for (let round = 0; round < rounds; round++) {
      quiet.push((await honest()).p99);
      for (const [path, body] of [
        ...Object.entries(EXPRESSIONS).map(
          ([name, [, payload]]) => [name, JSON.stringify(payload)] as const,
        ),
        ...Object.keys(MODULES).map((name) => [name, "{}"] as const),
      ]) {
        const [measured] = await Promise.all([honest(), post(path, body, ATTACKERS)]);
        errors += measured.errors;
        attacked.set(path, [...(attacked.get(path) ?? []), measured.p99]);
      }
    }
    const medians = [...attacked].map(([name, p99]) => ({ name, p99: median(p99) }));
    const worst = medians.reduce((one, other) => (other.p99 > one.p99 ? other : one));
    return [
      {
        row: "p99 of a hook while another mapping runs an attack",
        value: worst.p99,
        unit: "ms",
        p99: [worst.p99, median(quiet)],
        errors,
        note: `the worst of ${medians.length} attacks: ${medians.map(({ name, p99 }) => `${name} ${p99.toFixed(1)} ms`).join(", ")}`,
      },
    ];
  });
}
