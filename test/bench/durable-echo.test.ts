import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { createGroupLog } from "../../bench/group-log.ts";
import { ROOT, TOKEN } from "../../bench/servers.ts";

const dir = mkdtempSync(join(tmpdir(), "rouse-durable-echo-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

interface Stored {
  id: string;
  body: { number: number };
}
const readRecords = (file: string): Stored[] =>
  readFileSync(file, "utf8")
    .split("\n")
    // The last line is cut off, so its request had no answer.
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Stored);

async function post(
  url: string,
  number: number,
  token = TOKEN,
): Promise<{ status: number; id?: string }> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const answer = await fetch(`${url}/echo`, {
    method: "POST",
    headers,
    body: JSON.stringify({ number }),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    ...(answer.ok && { id: (JSON.parse(text) as { id: string }).id }),
  };
}

async function start(file: string): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [join(ROOT, "bench/durable-echo.ts"), file], {
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return { child, url: /http:\S+/.exec(line.toString())?.[0] ?? "" };
}

describe("the durable echo", () => {
  it("has every record that it answered after a kill, and refuses another token", async () => {
    const file = join(dir, "killed");
    const { child, url } = await start(file);
    expect(await post(url, 0, "another-token")).toEqual({ status: 401 });
    const answered = new Map<string, number>();
    let next = 0;
    const caller = async (): Promise<void> => {
      for (;;) {
        const number = next++;
        const { status, id = "" } = await post(url, number);
        expect(status).toBe(202);
        answered.set(id, number);
        if (answered.size >= 500) child.kill("SIGKILL");
      }
    };
    // Each ends with the connection.
    const callers = await Promise.allSettled(Array.from({ length: 16 }, caller));
    expect(
      callers.map(({ status, ...rest }) => [status, String("reason" in rest && rest.reason)]),
    ).toEqual(callers.map(() => ["rejected", expect.stringMatching(/fetch failed|terminated/)]));
    const stored = new Map(readRecords(file).map(({ id, body }) => [id, body.number]));
    expect(answered.size).toBeGreaterThanOrEqual(500);
    expect([...answered].filter(([id, number]) => stored.get(id) !== number)).toEqual([]);
  });

  it("accepts no hook if the disk is full", async () => {
    const { child, url } = await start("/dev/full");
    try {
      expect(await post(url, 1)).toEqual({ status: 500 });
    } finally {
      child.kill();
    }
  });

  it("answers after the sync of its group, and those that came meanwhile share the next one", async () => {
    const file = await open(join(dir, "held"), "a");
    const syncs: (() => void)[] = [];
    const hold = async (): Promise<void> => {
      await new Promise<void>((release) => syncs.push(release));
      await file.datasync();
    };
    const append = createGroupLog({ appendFile: (data) => file.appendFile(data), datasync: hold });
    const done: number[] = [];
    const add = (number: number): Promise<void> =>
      append({ number }).then(() => void done.push(number));
    const settle = async (count: number): Promise<void> => {
      while (syncs.length < count) await nextTurn();
    };
    const first = add(1);
    await settle(1);
    const rest = Promise.all([add(2), add(3)]);
    await nextTurn();
    expect([done, syncs.length]).toEqual([[], 1]);
    syncs[0]?.();
    await first;
    await settle(2);
    expect(done).toEqual([1]);
    syncs[1]?.();
    await rest;
    expect([done, syncs.length]).toEqual([[1, 2, 3], 2]);
    await file.close();
  });

  it("answers no request of a group that could not be stored, and continues with the next", async () => {
    const file = await open(join(dir, "failed"), "a");
    let fails = true;
    const append = createGroupLog({
      appendFile: (data) => file.appendFile(data),
      datasync: () => (fails ? Promise.reject(new Error("no space")) : file.datasync()),
    });
    await expect(append({ number: 1 })).rejects.toThrow("no space");
    fails = false;
    await append({ number: 2 });
    await file.close();
  });
});
