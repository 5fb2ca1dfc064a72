import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import {
  createGateway,
  definePlugin,
  type Gateway,
  type GatewayOptions,
  type Log,
  type OutgoingMessage,
} from "rouse";

export const TOKEN = "library-hook-token-0123456789";

/** A folder of the test's own, in place of the folder that a program would give. */
export function ownFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), "rouse-library-"));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** A channel that keeps what it is given. */
export function keepingPlugin(id = "acme") {
  const sent: OutgoingMessage[] = [];
  const plugin = definePlugin({
    id,
    channel: () => ({
      defaultTo: "everybody",
      send: async (message) => {
        sent.push(message);
        return { status: "sent" };
      },
    }),
  });
  return { plugin, sent };
}

/** A log that keeps its lines. */
export function keepingLog(): Log & {
  lines: { level: string; fields: object; message: string }[];
} {
  const lines: { level: string; fields: object; message: string }[] = [];
  const keep = (level: string) => (fields: object, message: string) =>
    void lines.push({ level, fields, message });
  return {
    lines,
    debug: keep("debug"),
    info: keep("info"),
    warn: keep("warn"),
    error: keep("error"),
  };
}

/** A gateway in a folder of its own, with nothing of the process; it stops with the test. */
export async function embed(options: GatewayOptions = {}): Promise<Gateway> {
  const gateway = await createGateway({
    ...(options.configFile === undefined && {
      config: { gateway: { drainSeconds: 1 }, hooks: { enabled: true, token: TOKEN } },
    }),
    cwd: options.cwd ?? ownFolder(),
    env: {},
    ...options,
  });
  onTestFinished(() => gateway.stop());
  return gateway;
}

export function hook(path: string, body: object, token = TOKEN): Request {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  return new Request(`http://host.example/hooks/${path}`, {
    method: "POST",
    headers,
    body: JSON.stringify(body),
  });
}

/** Waits until `read` gives something. */
export async function until<T>(read: () => T | undefined | false): Promise<T> {
  for (let i = 0; i < 1500; i++) {
    const value = read();
    if (value !== undefined && value !== false) return value;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("what was waited for did not come");
}
