import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Plugin } from "../contract/define.ts";
import { createGateway, type Config, type Gateway } from "../index.ts";

export const HOOK_TOKEN = "hook-token-of-the-suite-0123456789";
const OPERATOR_TOKEN = "operator-token-of-the-suite-0123456789";
/** The public address of the gateway, for senders that sign it. */
export const PUBLIC_URL = "https://hooks.example.com";

/** A gateway in a folder of its own that takes events and runs nothing. */
export interface TestGateway {
  gateway: Gateway;
  /** Posts to a hook path. Resolves to the status and the JSON of the answer. */
  post(
    path: string,
    body: string,
    headers: Record<string, string>,
  ): Promise<{ status: number; body: unknown }>;
  /** The name of a run and its input as one text. */
  readRun(id: string): Promise<{ name: string; text: string }>;
  close(): Promise<void>;
}

/** Creates a gateway whose `hooks` section has these members. */
export async function createTestGateway(
  hooks: NonNullable<Config["hooks"]>,
  plugins: readonly Plugin[] = [],
): Promise<TestGateway> {
  const dir = await mkdtemp(join(tmpdir(), "rouse-suite-"));
  const gateway = await createGateway({
    cwd: dir,
    env: {},
    plugins,
    // The channel that is a terminal makes a route for replies.
    print: () => undefined,
    config: {
      gateway: { publicUrl: PUBLIC_URL, token: OPERATOR_TOKEN, drainSeconds: 1 },
      hooks: { enabled: true, token: HOOK_TOKEN, ...hooks },
    },
  }).catch(async (error: unknown) => {
    await rm(dir, { recursive: true, force: true });
    // The report of a test shows the message alone.
    const issues = (error as { issues?: { path: string; message: string }[] }).issues ?? [];
    if (error instanceof Error)
      error.message += issues.map(({ path, message }) => `\n  ${path}: ${message}`).join("");
    throw error;
  });
  const request = async (
    path: string,
    init: RequestInit,
  ): Promise<{ status: number; body: unknown }> => {
    const response = await gateway.fetch(new Request(`http://127.0.0.1${path}`, init));
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") === true && text !== "";
    return { status: response.status, body: isJson ? JSON.parse(text) : text };
  };
  return {
    gateway,
    post: (path, body, headers) => request(`/hooks/${path}`, { method: "POST", body, headers }),
    async readRun(id) {
      const answer = await request(`/admin/v1/runs/${id}`, {
        headers: { authorization: `Bearer ${OPERATOR_TOKEN}` },
      });
      const { run } = answer.body as { run: { name: string; input: { text: string }[] } };
      return { name: run.name, text: run.input.map(({ text }) => text).join("") };
    },
    async close() {
      await gateway.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
