import { OPERATOR } from "../../config/schema/tools.ts";
import type { Pairing } from "../../people/pairings.ts";
import { unwrap } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull, pick } from "../records/views.ts";

/** A person on a channel who was approved or denied, or waits for that, as operators see it. */
export type PairingView = ReturnType<typeof pairingView>;

function pairingView(pairing: Pairing) {
  const { name, state, code, requestedAt, expiresAt, decidedAt, by } = pairing;
  return {
    ...pick(pairing, "id", "channel", "person", "state"),
    /** The display name that the person had: outside text. */
    name: name ?? null,
    /** Null unless the person waits. */
    code: code ?? null,
    requestedAt: iso(requestedAt),
    /** Null unless the person waits. */
    expiresAt: state === "waiting" ? iso(expiresAt) : null,
    decidedAt: isoOrNull(decidedAt),
    by: by ?? null,
  };
}

/** Lists people who wait, and those about whom was decided, the newest first. */
export async function listPairings({ people }: AdminDeps) {
  return { pairings: (await people.pairings.list()).map(pairingView) };
}

/**
 * Decides about a person as the operator, by the code or the id.
 * @throws RouseError `not_found`
 */
export async function decidePairing(
  { people }: AdminDeps,
  codeOrId: string,
  verdict: "approve" | "deny",
) {
  return {
    pairing: pairingView(unwrap(await people.pairings.decide(codeOrId, verdict, OPERATOR)).pairing),
  };
}

/**
 * Takes a decision back, by the id or as `<channel>:<person>`.
 * @throws RouseError `not_found`
 */
export async function revokePairing({ people }: AdminDeps, idOrPerson: string) {
  return { pairing: pairingView(unwrap(await people.pairings.revoke(idOrPerson)).pairing) };
}
