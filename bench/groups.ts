/** The measurements of `npm run bench`, by the names of `--row`. */
import { chatRows } from "./chat.ts";
import { acceptWithRuns, HOOK_ROWS, hookRow, onPostgres, openLoop } from "./hooks.ts";
import { isolationRows } from "./isolation.ts";
import { limitsRows } from "./limits.ts";
import type { Row, Timing } from "./measure.ts";
import { peerRows } from "./peers.ts";
import { enqueueToStart, twoAgainstOne, withSchema } from "./postgres.ts";
import { runsAgainst, wholeRuns } from "./runs.ts";
import { startRows } from "./start.ts";
import { whatIfRows } from "./what-if.ts";

export interface Context {
  timing: Timing;
  /** A PostgreSQL answers. */
  postgres: boolean;
  /** The commit of `--against`. */
  against: string | undefined;
}

export interface Group {
  /** Of docs/performance.md. */
  section: string;
  about: string;
  measure(context: Context): Promise<Row[]>;
  needs?: "PostgreSQL" | "--peers" | "--against";
  /** docs/performance.md does not show it: `--table` leaves it out, and `--write` does not write it. */
  offPage?: true;
}

const SQLITE = "Hooks on SQLite";
const MAPPINGS = "Mappings, transforms and presets";
const SEVERAL = "Several gateways on PostgreSQL";

const HOOK_SECTIONS: Record<string, string> = {
  "many-mappings": MAPPINGS,
  transform: MAPPINGS,
  presets: MAPPINGS,
};
const hookGroups = Object.entries(HOOK_ROWS).map(([name, { row }]): [string, Group] => [
  name,
  {
    section: HOOK_SECTIONS[name] ?? SQLITE,
    about: row,
    measure: ({ timing }) => hookRow(name, timing),
  },
]);

export const GROUPS: Record<string, Group> = {
  ...Object.fromEntries(hookGroups),
  workers: {
    section: SQLITE,
    about: "`POST /hooks/agent` while runs are carried out, each in a session of its own",
    measure: ({ timing }) => acceptWithRuns(timing),
  },
  "open-loop": {
    section: "Hooks at a fixed rate",
    about: "300 hooks a second with their runs, whatever has been answered",
    measure: ({ timing }) => openLoop(timing),
  },
  postgres: {
    section: "Hooks on PostgreSQL",
    about: "`POST /hooks/agent`",
    measure: ({ timing }) => withSchema((url) => onPostgres(url, timing)),
    needs: "PostgreSQL",
  },
  "postgres-two": {
    section: SEVERAL,
    about: "CPU time of a hook, two gateways against one (needs a superuser)",
    measure: async ({ timing }) => [await twoAgainstOne(timing)],
    needs: "PostgreSQL",
  },
  "postgres-start": {
    section: SEVERAL,
    about: "time from a hook to the start of its run",
    measure: () => enqueueToStart(100),
    needs: "PostgreSQL",
  },
  runs: {
    section: "Runs",
    about: "runs a second, with and without tools",
    measure: async ({ timing: { rounds } }) => [
      await wholeRuns(rounds),
      await wholeRuns(rounds, 2),
    ],
  },
  "runs-against": {
    section: "Runs against a commit",
    about: "runs a second of this checkout against those of the commit of --against",
    measure: ({ against = "", postgres, timing }) => runsAgainst(against, postgres, timing.rounds),
    needs: "--against",
    offPage: true,
  },
  chat: {
    section: "Chats",
    about: "streamed chats against a proxy before the same model",
    measure: ({ timing }) => chatRows(timing),
  },
  peers: {
    section: "Other programs",
    about: "programs that store what they accept, and programs that do not, beside Rouse",
    measure: ({ timing, postgres }) => peerRows(timing, postgres),
    needs: "--peers",
  },
  start: {
    section: "Start and memory",
    about: "time to start, memory, installed size, and what the console adds",
    measure: ({ timing }) => startRows(timing.rounds),
  },
  isolation: {
    section: "Attacked mappings",
    about: "p99 of a hook while another mapping runs an attack",
    measure: ({ timing }) => isolationRows(timing),
    offPage: true,
  },
  "what-if": {
    section: "What if",
    about: "comparisons of recorded events with a changed config",
    measure: ({ timing }) => whatIfRows(timing),
    offPage: true,
  },
  // The longest last: what Ctrl-C ends is printed up to there.
  "limits-200k": {
    section: "Limits",
    about: "hooks and their runs with limits against without, 200,000 runs in the last day",
    measure: ({ timing, postgres }) => limitsRows(200_000, postgres, timing.rounds),
    offPage: true,
  },
  "limits-2m": {
    section: "Limits",
    about: "the same with 2,000,000 runs; takes several minutes",
    measure: ({ timing, postgres }) => limitsRows(2_000_000, postgres, timing.rounds),
    offPage: true,
  },
};
