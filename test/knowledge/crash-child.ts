/** Adds documents to a folder and has them indexed, until it is killed. Says the id of each that was accepted. */
import { flushCompileCache } from "node:module";
import { knowledgeSchema } from "../../src/config/schema/knowledge.ts";
import { systemClock } from "../../src/core/clock.ts";
import { createLogger } from "../../src/core/log.ts";
import { createKnowledge } from "../../src/knowledge/knowledge.ts";
import { findStoreDriver, getSqlSource } from "../../src/store/open.ts";
import { stageBytes } from "../../src/knowledge/upload-staging.ts";

const [dir = "", from = "0", url] = process.argv.slice(2);
const common = {
  dir,
  clock: systemClock,
  log: createLogger("silent"),
  config: knowledgeSchema.parse(undefined),
};
const sql = url === undefined ? undefined : getSqlSource(await findStoreDriver(url), url);
const knowledge = await createKnowledge({ ...common, sql });
await knowledge.start();
// The next one starts from what this one has compiled, which a kill would lose.
flushCompileCache();
for (let n = Number(from); ; n++) {
  const text = `The marker${n} stands in a sentence that has some length. `.repeat(
    n % 3 === 0 ? 8000 : 40,
  );
  const { document } = await knowledge.add({
    tenant: "t",
    ...(await stageBytes(dir, Buffer.from(text), 50_000_000)),
    filename: "text.txt",
  });
  process.stdout.write(`${n} ${document.id}\n`);
}
