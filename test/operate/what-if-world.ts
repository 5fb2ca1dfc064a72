import { appendFileSync, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { AnswerLine } from "../../src/operate/workbench.ts";
import type { WhatIfEnd } from "../../src/operate/what-if/what-if.ts";
import type { World } from "../e2e/world.ts";

export const ORDER = {
  id: "shop.order",
  match: { path: "shop", payload: { type: "order" } },
  messageTemplate: "Order {{id}} of {{customer.name}}",
  deliver: true,
  channel: "own",
  to: "room-1",
};
export const REFUND = {
  id: "shop.refund",
  match: { path: "shop", payload: { type: "refund" } },
  messageTemplate: "Refund {{id}}",
  deliver: false,
};
export const REFUND_TEXT = `{ id: "shop.refund", match: { path: "shop", payload: { type: "refund" } }, messageTemplate: "Refund {{id}}", deliver: false, }`;
/** A transform that takes a moment for each event. */
export const SLOW =
  "export default () => new Promise((done) => setTimeout(() => done({ message: 'x' }), 1000));\n";

/** A channel that writes what it sends into a file beside it. */
export const CHANNEL = `import { appendFileSync } from "node:fs";
export default { id: "own", channel: () => ({ send: async () => { appendFileSync(import.meta.dirname + "/sent", "x"); return { status: "sent" }; } }) };
`;

/** The number of messages that the channel above has sent. */
export function countSent(dir: string): number {
  appendFileSync(join(dir, "sent"), "");
  return readFileSync(join(dir, "sent"), "utf8").length;
}

/** An answer with one document a line. */
export interface Lines {
  status: number;
  lines: AnswerLine[];
  headers: Headers;
  /** The answer of a request that failed. */
  error: { code: string; message: string; issues?: { path: string }[] } | undefined;
}

const post = ({ gateway, url }: World, body: object, signal?: AbortSignal): Promise<Response> =>
  fetch(`${url}/admin/v1/what-if`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.operatorToken}`,
      "content-type": "application/json",
    },
    body: JSON.stringify(body),
    ...(signal && { signal }),
  });

/** Asks for a comparison over HTTP, and reads the whole answer. */
export async function ask(world: World, body: object): Promise<Lines> {
  const response = await post(world, body);
  const text = await response.text();
  const { status, headers } = response;
  if (status !== 200)
    return {
      status,
      headers,
      lines: [],
      error: (JSON.parse(text) as { error: Lines["error"] }).error,
    };
  const lines = text.trimEnd().split("\n");
  return {
    status,
    headers,
    lines: lines.map((line) => JSON.parse(line) as AnswerLine),
    error: undefined,
  };
}

/** Asks, and returns the answer's last line, which must be the end. */
export async function askEnd(world: World, body: object): Promise<WhatIfEnd> {
  const { lines, status, error } = await ask(world, body);
  const end = lines.at(-1);
  if (end?.type !== "end") throw new Error(`${status} ${JSON.stringify(error ?? end)}`);
  return end;
}

/** Asks for a comparison and reads its first line. `leave` closes the connection, `rest` reads on. */
export async function begin(world: World, body: object) {
  const ended = new AbortController();
  const response = await post(world, body, ended.signal);
  const reader = (response.body as ReadableStream<Uint8Array>).getReader();
  const first = new TextDecoder().decode((await reader.read()).value);
  return {
    status: response.status,
    first,
    leave: () => ended.abort(),
    async rest(): Promise<string> {
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return text;
        text += new TextDecoder().decode(value);
      }
    },
  };
}

/** The processes whose command names `file`: those that this process has started, or with `group` those of a process group. */
export function listChildren(file: string, group?: number): { pid: number; group: number }[] {
  if (!existsSync("/proc/self/stat")) return [];
  const found = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return found.flatMap((name) => {
    try {
      const fields = readFileSync(`/proc/${name}/stat`, "latin1").replace(/^.*\) /, "");
      const [state, parent, own] = fields.split(" ");
      const isMeant = group === undefined ? Number(parent) === process.pid : Number(own) === group;
      if (
        state === "Z" ||
        !isMeant ||
        !readFileSync(`/proc/${name}/cmdline`, "latin1").includes(file)
      )
        return [];
      return [{ pid: Number(name), group: Number(own) }];
    } catch {
      return [];
    }
  });
}
