import { systemClock } from "../core/clock.ts";
import { RouseError } from "../core/errors.ts";
import { createLogger } from "../core/log.ts";
import { configuredEmbedder } from "../knowledge/configured.ts";
import { createKnowledge } from "../knowledge/knowledge.ts";
import type { Knowledge } from "../knowledge/types.ts";
import { acquireLock, type Lock } from "../store/lock.ts";
import type { CliIo } from "./io.ts";
import type { CommonOptions } from "./options.ts";
import { loadSettings } from "./settings.ts";

export interface OpenKnowledge {
  knowledge: Knowledge;
  stateDir: string;
  /** The most that one file may have. */
  fileBytes: number;
}

async function lockFor(stateDir: string): Promise<Lock> {
  try {
    return await acquireLock(stateDir);
  } catch (error) {
    if (!(error instanceof RouseError) || error.code !== "store_locked") throw error;
    const message = `${error.message.replace(/; stop it.*$/, "")}; ask it (/v1/knowledge), or stop it first`;
    throw new RouseError({ code: "store_locked", message }, { cause: error });
  }
}

/**
 * Opens the documents of the config's state folder for one command, while no gateway runs on it.
 * @throws RouseError `store_locked` while one does, `config_invalid`.
 */
export async function withKnowledge<T>(options: CommonOptions, io: CliIo, work: (open: OpenKnowledge) => Promise<T>): Promise<T> {
  const { stateDir, config } = await loadSettings(options, io);
  const lock = await lockFor(stateDir);
  try {
    const embed = configuredEmbedder(config, io.env);
    const knowledge = await createKnowledge({
      dir: stateDir,
      clock: systemClock,
      log: createLogger(options.verbose ? "info" : "error"),
      config: config.platform.knowledge,
      ...(embed === undefined ? {} : { embed }),
    });
    try {
      return await work({ knowledge, stateDir, fileBytes: config.platform.knowledge.fileMb * 1e6 });
    } finally {
      await knowledge.close();
    }
  } finally {
    lock.release();
  }
}
