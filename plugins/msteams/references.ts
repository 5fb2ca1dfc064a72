import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { PluginContext } from "#plugin";
import type { TeamsConfig } from "./index.ts";

/** Where a conversation is reached, learnt from a message that was believed. */
export interface Reference {
  serviceUrl: string;
  conversation: string;
  /** Who writes there: the bot's id and its tenant. */
  bot: string;
  tenant: string | undefined;
  /** The user's id there, in a conversation of two. */
  user: string | undefined;
}

/** Services to which the bot's token may go. Whole names: anybody may take another below trafficmanager.net. */
const SERVICE_HOSTS: readonly string[] = [
  "smba.trafficmanager.net",
  "smba.infra.gcc.teams.microsoft.com",
  "smba.infra.gov.teams.microsoft.us",
  "smba.infra.dod.teams.microsoft.us",
];
const MAX_KEPT = 5_000;

/** Whether the bot's token may be sent to this address: a service of Teams, or the one in the config. */
export function trusted(serviceUrl: string, config: TeamsConfig): boolean {
  if (!URL.canParse(serviceUrl)) return false;
  const { protocol, hostname, port, origin, username, password } = new URL(serviceUrl);
  if (username !== "" || password !== "") return false;
  if (origin === new URL(config.serviceUrl).origin) return true;
  return protocol === "https:" && port === "" && SERVICE_HOSTS.includes(hostname);
}

/** The conversations that are known, in a file of the plugin's own, so that a message can be sent first after a restart. */
export function createReferences({ config, log, stateDir }: PluginContext<TeamsConfig>) {
  let loaded: Promise<Map<string, Reference>> | undefined;
  let writing: Promise<void> = Promise.resolve();
  const fileOf = async (): Promise<string> => join(await stateDir(), `${config.appId}.json`);

  const load = async (): Promise<Map<string, Reference>> => {
    try {
      const entries = JSON.parse(await readFile(await fileOf(), "utf8")) as [string, Reference][];
      return new Map(entries);
    } catch (error) {
      if ((error as { code?: unknown }).code !== "ENOENT")
        log.warn("the conversations that were known cannot be read; they are learnt anew");
      return new Map();
    }
  };
  const known = (): Promise<Map<string, Reference>> => (loaded ??= load());

  const write = async (references: Map<string, Reference>): Promise<void> => {
    const file = await fileOf();
    const text = JSON.stringify([...references]);
    await writeFile(`${file}.new`, text, { mode: 0o600, flush: true });
    await rename(`${file}.new`, file);
  };

  return {
    /** By the id of a conversation, or by `user:` and an id of a user. Not one that is no longer trusted. */
    async find(key: string): Promise<Reference | undefined> {
      const found = (await known()).get(key);
      return found && trusted(found.serviceUrl, config) ? found : undefined;
    },
    /** Keeps a reference under these keys: on disk once this resolves, or else a warning says so. */
    async keep(keys: readonly string[], reference: Reference): Promise<void> {
      const references = await known();
      const text = JSON.stringify(reference);
      if (keys.every((key) => JSON.stringify(references.get(key)) === text)) return writing;
      for (const key of keys) {
        references.delete(key);
        references.set(key, reference);
      }
      for (const key of references.keys()) {
        if (references.size <= MAX_KEPT) break;
        references.delete(key);
      }
      writing = writing
        .then(() => write(references))
        .catch(() => log.warn("a new conversation could not be written to disk: it is known until the gateway stops"));
      await writing;
    },
  };
}

/** What `createReferences` gives. */
export type References = ReturnType<typeof createReferences>;
