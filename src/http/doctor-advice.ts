import type { CheckView } from "./admin-types.ts";
import type { AdminDeps, Snapshot } from "./types.ts";

type Found = Omit<CheckView, "id">;
type Advice = (deps: AdminDeps, snapshot: Snapshot) => Found;

const ok = (message: string): Found => ({ status: "ok", message });
const warn = (message: string): Found => ({ status: "warn", message });

const hookToken: Advice = (_deps, { config }) => {
  const { enabled, path, allowRequestSessionKey, allowRequestRecipient } = config.hooks;
  if (!enabled || !allowRequestSessionKey || !allowRequestRecipient)
    return ok("a holder of hooks.token cannot name both a session and a recipient");
  return warn(
    `every holder of hooks.token can continue any session of ${path}/agent (\`sessionKey\`) and choose who gets the reply (\`to\`, \`channel\`): set hooks.allowRequestSessionKey or hooks.allowRequestRecipient to false, or give each sender a path with a credential of its own`,
  );
};

/** What a config allows and an operator may want to forbid: never an error. */
export const ADVICE: Readonly<Record<string, Advice>> = { "hook-token": hookToken };
