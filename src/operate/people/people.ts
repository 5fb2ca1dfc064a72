import { OPERATOR } from "../../config/schema/tools.ts";
import type { LinkedAddress, PersonAddress } from "../../people/links.ts";
import type { Pairing } from "../../people/pairings.ts";
import { unknownId } from "../../vocabulary/unknown-id.ts";
import { found, unwrap } from "../records/operation.ts";
import type { AdminDeps } from "../types.ts";
import { iso, isoOrNull, pick, pickOrNull } from "../records/views.ts";

/** A person on one channel, who has linked it or whom the config names, as operators see it. */
export type AddressView = Awaited<ReturnType<typeof listAddresses>>["addresses"][number];

/** `linked` may be null: the config names the address, and no code has linked it. */
function addressView(
  address: PersonAddress,
  linked: LinkedAddress | undefined,
  { snapshot }: AdminDeps,
) {
  const { rooms } = snapshot();
  const { channel, person } = address;
  const state = linked ? ("linked" as const) : ("unlinked" as const);
  return {
    channel,
    person,
    /** `personId` names the person and ends the key of the session: `channel:person:<id>`; `runId` is that of the command `/link`. Null unless linked. */
    ...pickOrNull(linked, "personId", "runId"),
    /** The id of the entry of `people` in the config. */
    entry: rooms.findEntry(address) ?? null,
    /** `owner`: direct messages join the main session, whatever is linked. */
    state: rooms.isOwner(channel, person) ? ("owner" as const) : state,
    linkedAt: isoOrNull(linked?.linkedAt),
  };
}

/** Lists the addresses that are linked, by person, and then those that the config names and no code has linked. */
export async function listAddresses(deps: AdminDeps) {
  const linked = (await deps.people.links.list()).toSorted((one, other) =>
    one.personId.localeCompare(other.personId),
  );
  const isLinked = ({ channel, person }: PersonAddress): boolean =>
    linked.some((one) => one.channel === channel && one.person === person);
  const named = deps.snapshot().rooms.entries.filter((address) => !isLinked(address));
  return {
    addresses: [
      ...linked.map((one) => addressView(one, one, deps)),
      ...named.map((one) => addressView(one, undefined, deps)),
    ],
  };
}

/**
 * Takes out all addresses of a person by the id, or one address as `<channel>:<person>`, with the last one that is left.
 * @throws RouseError `not_found`
 */
export async function unlinkPerson(deps: AdminDeps, idOrAddress: string) {
  const removed = await deps.people.links.unlink(idOrAddress);
  found(removed[0], unknownId("person", idOrAddress));
  return {
    unlinked: removed.map(({ channel, person, personId }) => ({ channel, person, personId })),
  };
}

/** A person on a channel who was approved or denied, or waits for that, as operators see it. */
export type PairingView = ReturnType<typeof pairingView>;

function pairingView(pairing: Pairing) {
  const { state, requestedAt, expiresAt, decidedAt } = pairing;
  return {
    ...pick(pairing, "id", "channel", "person", "state"),
    /** `name`: the display name that the person had, outside text. `code`: null unless the person waits. */
    ...pickOrNull(pairing, "name", "code", "by"),
    requestedAt: iso(requestedAt),
    /** Null unless the person waits. */
    expiresAt: state === "waiting" ? iso(expiresAt) : null,
    decidedAt: isoOrNull(decidedAt),
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
