/** Puts hooks into a queue of BullMQ. Arguments: the folder that has the package, the port of Redis. */
import { createRequire } from "node:module";
import { join } from "node:path";
import { serveHooks } from "../front.ts";

interface Queue {
  add(name: string, data: unknown): Promise<{ id?: string }>;
}

const [dir = "", port = ""] = process.argv.slice(2);
const { Queue } = createRequire(join(dir, "package.json"))("bullmq") as {
  Queue: new (name: string, options: object) => Queue;
};
const queue = new Queue("hooks", { connection: { host: "127.0.0.1", port: Number(port) } });
serveHooks(async (body) => (await queue.add("agent", body)).id ?? "");
