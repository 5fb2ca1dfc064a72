import { open, rm, stat } from "node:fs/promises";
import { isAbsolute } from "node:path";
import { RouseError, safeError } from "../core/errors.ts";
import { backupKnowledge } from "../knowledge/backup.ts";
import type { AdminDeps } from "./types.ts";

const usage = (message: string): RouseError => new RouseError({ code: "usage", message: `file: ${message}` });

/** Makes the file first, so that no moment passes in which others could read it. */
async function createPrivateFile(file: string): Promise<void> {
  if (!isAbsolute(file)) throw usage("write an absolute path");
  try {
    await (await open(file, "wx", 0o600)).close();
  } catch (error) {
    const { code } = safeError(error);
    throw usage(code === "EEXIST" ? "it is there already; name a new one" : `it cannot be made there (${code ?? "unknown"})`);
  }
}

/**
 * Copies the store into a new file while it is in use, and beside it the documents, if there are any (`knowledge`).
 * @throws RouseError `usage` if the file cannot be made, `store_unavailable` if the copy fails.
 */
export async function backupStore(deps: AdminDeps, file: string) {
  const started = performance.now();
  await createPrivateFile(file);
  try {
    await deps.store.backup(file);
    const knowledge = await backupKnowledge(deps.status().stateDir, file);
    const { size } = await stat(file);
    return { file, bytes: size, seconds: (performance.now() - started) / 1000, ...(knowledge ? { knowledge } : {}) };
  } catch (error) {
    await rm(file, { force: true });
    if (error instanceof RouseError && error.code === "usage") throw error;
    const { code, name } = safeError(error);
    throw new RouseError({ code: "store_unavailable", message: `the copy could not be made (${code ?? name}); is there room for it?` });
  }
}
