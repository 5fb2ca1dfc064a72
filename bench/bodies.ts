/** The bodies of the posts. */
import { createRequire } from "node:module";
import { MARK } from "./load.ts";

const AGENT_HOOK = {
  message: "A build failed on main, please look.",
  name: "CI",
  deliver: false,
  wakeMode: "next-heartbeat",
};
export const AGENT = JSON.stringify({ ...AGENT_HOOK, sessionKey: "hook:ci" });
/** Each a run in a session of its own. */
export const AGENT_ALONE = JSON.stringify(AGENT_HOOK);
export const WAKE = JSON.stringify({ text: "A backup has finished.", mode: "next-heartbeat" });

interface Example {
  name: string;
  examples: { action?: string }[];
}
const loaded = createRequire(import.meta.url)("@octokit/webhooks-examples") as
  | Example[]
  | { default: Example[] };
const examples = Array.isArray(loaded) ? loaded : loaded.default;
export const PULL_REQUEST = JSON.stringify(
  examples
    .find((event) => event.name === "pull_request")
    ?.examples.find((body) => body.action === "opened"),
);
/** The pull request with a place where each request differs: the same body twice would be a repeat. */
export const SIGNED_PULL_REQUEST = PULL_REQUEST.replace("{", `{"bench":"${MARK}",`);
