import type { CheckView } from "./admin-types.ts";
import type { Snapshot } from "../intake/types.ts";
import type { AdminDeps } from "./types.ts";

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

const unsafeContent: Advice = (_deps, { mappings }) => {
  const unsafe = mappings.mappings.filter((mapping) => mapping.enabled && mapping.unsafe).map(({ id }) => `"${id}"`);
  if (unsafe.length === 0) return ok("no mapping takes the boundary away from outside text");
  return warn(
    `${unsafe.join(", ")}: allowUnsafeExternalContent lets a model read what senders write as if you had written it: take it out, and put what the agent should do into \`instructions\``,
  );
};

const tokenAccounts: Advice = (_deps, { verifiers }) => {
  const open = [...verifiers].filter(([, verifier]) => verifier.anyAccount).map(([path]) => `"${path}"`);
  if (open.length === 0) return ok("no path accepts the tokens of any account of an issuer");
  return warn(
    `${open.join(", ")}: every account that the issuer signs tokens for may call (oidc.privateIssuer): set \`auth.email\` to the account of the sender`,
  );
};

/** What a config allows and an operator may want to forbid: never an error. */
export const ADVICE: Readonly<Record<string, Advice>> = {
  "hook-token": hookToken,
  "unsafe-content": unsafeContent,
  "token-accounts": tokenAccounts,
};
