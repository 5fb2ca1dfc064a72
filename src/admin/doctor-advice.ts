import { passedCheck, warningCheck, type Check } from "./doctor-check.ts";

const hookToken: Check = (_deps, { config }) => {
  const { enabled, path, allowRequestSessionKey, allowRequestRecipient } = config.hooks;
  if (!enabled || !allowRequestSessionKey || !allowRequestRecipient)
    return passedCheck("a holder of hooks.token cannot name both a session and a recipient");
  return warningCheck(
    `every holder of hooks.token can continue any session of ${path}/agent (\`sessionKey\`) and choose who gets the reply (\`to\`, \`channel\`): set hooks.allowRequestSessionKey or hooks.allowRequestRecipient to false, or give each sender a path with a credential of its own`,
  );
};

const unsafeContent: Check = (_deps, { mappings }) => {
  const unsafe = mappings.mappings.filter((mapping) => mapping.enabled && mapping.unsafe).map(({ id }) => `"${id}"`);
  if (unsafe.length === 0) return passedCheck("no mapping takes the boundary away from outside text");
  return warningCheck(
    `${unsafe.join(", ")}: allowUnsafeExternalContent lets a model read what senders write as if you had written it: take it out, and put what the agent should do into \`instructions\``,
  );
};

const tokenAccounts: Check = (_deps, { verifiers }) => {
  const open = [...verifiers].filter(([, verifier]) => verifier.anyAccount).map(([path]) => `"${path}"`);
  if (open.length === 0) return passedCheck("no path accepts the tokens of any account of an issuer");
  return warningCheck(
    `${open.join(", ")}: every account that the issuer signs tokens for may call (oidc.privateIssuer): set \`auth.email\` to the account of the sender`,
  );
};

/** What a config allows and an operator may want to forbid: never an error. */
export const ADVICE: Readonly<Record<string, Check>> = {
  "hook-token": hookToken,
  "unsafe-content": unsafeContent,
  "token-accounts": tokenAccounts,
};
