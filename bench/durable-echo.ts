/** The least that an accept can do that survives a power loss: token, JSON, one record on disk, 202. */
import { randomUUID } from "node:crypto";
import { open } from "node:fs/promises";
import { createGroupLog } from "./group-log.ts";
import { serveHooks } from "./front.ts";

const [path = ""] = process.argv.slice(2);
const append = createGroupLog(await open(path, "a"));
serveHooks(async (body) => {
  const id = randomUUID();
  await append({ id, receivedAt: Date.now(), body });
  return id;
});
