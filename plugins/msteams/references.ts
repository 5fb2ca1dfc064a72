import { createKeyValueStore, type KeyValueStore } from "#channel-kit";
import type { PluginContext } from "#plugin";
import type { TeamsConfig } from "./config.ts";

/** The address of a conversation, learnt from an authenticated message. */
export interface Reference {
  serviceUrl: string;
  conversation: string;
}

/** Services to which the bot's token may go. Whole names: anybody may take another below trafficmanager.net. */
const SERVICE_HOSTS: readonly string[] = [
  "smba.trafficmanager.net",
  "smba.infra.gcc.teams.microsoft.com",
  "smba.infra.gov.teams.microsoft.us",
  "smba.infra.dod.teams.microsoft.us",
];
const MAX_KEPT = 5_000;

/** Returns whether the bot's token may be sent to this address: a service of Teams, or the one in the config. */
export function trusted(serviceUrl: string, config: TeamsConfig): boolean {
  if (!URL.canParse(serviceUrl)) return false;
  const { protocol, hostname, port, origin, username, password } = new URL(serviceUrl);
  if (username !== "" || password !== "") return false;
  if (origin === new URL(config.serviceUrl).origin) return true;
  return protocol === "https:" && port === "" && SERVICE_HOSTS.includes(hostname);
}

/** The conversations that are known by their id, or by `user:` and an id of a user, so that a message can be sent first after a restart. */
export function createReferences(context: PluginContext<TeamsConfig>): KeyValueStore<Reference> {
  const { config } = context;
  const isValid = ({ serviceUrl }: Reference): boolean => trusted(serviceUrl, config);
  return createKeyValueStore(context, {
    file: `${config.appId}.json`,
    max: MAX_KEPT,
    what: "conversations",
    isValid,
  });
}
