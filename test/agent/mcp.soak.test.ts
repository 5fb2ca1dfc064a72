import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import {
  createHttpServer,
  createMcpWorld,
  findChildren,
  LEDGER_SERVER,
  readLedger,
  type HttpServer,
  type McpWorld,
} from "./mcp.ts";
import { scale } from "../soak.ts";
import type { Said } from "./vendors.ts";

const RUNS = scale(100, 1_000);
const AT_ONCE = 8;
/** Connections that are kept for the next request. */
const SPARE = 40;

let world: McpWorld | undefined;
let http: HttpServer | undefined;
const dir = mkdtempSync(join(tmpdir(), "rouse-soak-"));
afterEach(async () => {
  await world?.stop();
  await http?.kill();
  rmSync(dir, { recursive: true, force: true });
});

const countHandles = (): { files: number; resources: number } => ({
  files: readdirSync("/proc/self/fd").length,
  resources: process.getActiveResourcesInfo().filter((name) => name !== "Immediate").length,
});

it(
  `${RUNS} runs with calls of a program and of a server leave no process and no handle`,
  { timeout: 600_000 },
  async () => {
    http = await createHttpServer("streamableHttp");
    await http.start();
    const ledger = join(dir, "ledger");
    const book = { command: process.execPath, args: [LEDGER_SERVER], env: { LEDGER: ledger } };
    const made = await createMcpWorld({ book, all: { url: http.url } }, () => undefined);
    world = made;
    made.model.handler = ({ body }): Said => {
      const answers = (body as { messages: { role: string }[] }).messages.filter(
        ({ role }) => role === "tool",
      ).length;
      if (answers === 0) return { tool: "book__text", input: {} };
      return answers === 1 ? { tool: "all__echo", input: { message: "x" } } : { text: "Done." };
    };
    const runAll = async (count: number): Promise<void> => {
      let left = count;
      const worker = async (): Promise<void> => {
        while (left-- > 0)
          expect(await made.run()).toMatchObject({ status: "succeeded", warnings: [] });
      };
      await Promise.all(Array.from({ length: AT_ONCE }, worker));
    };
    await runAll(50);
    const before = countHandles();
    await runAll(RUNS - 50);
    const after = countHandles();
    expect(readLedger(ledger).filter(({ call }) => call !== undefined)).toHaveLength(RUNS);
    expect(readLedger(ledger).filter(({ started }) => started)).toHaveLength(1);
    expect(findChildren(LEDGER_SERVER)).toHaveLength(1);
    expect(after.files).toBeLessThan(before.files + SPARE);
    expect(after.resources).toBeLessThan(before.resources + SPARE);
    await made.stop();
    world = undefined;
    expect(findChildren(LEDGER_SERVER)).toEqual([]);
  },
);
