import type { Channel } from "../contract/channel.ts";

/** A channel of this snapshot. */
export interface LoadedChannel {
  id: string;
  channel: Channel;
}

export type RecipientCheck = { ok: true; to: string } | { ok: false; message: string };

/** All channels of a snapshot, by id and alias. */
export interface Channels {
  /** The id that a name or alias means, also for channels that are known but not configured; undefined if the name is unknown. */
  resolve(name: string): { id: string; loaded: boolean } | undefined;
  get(id: string): LoadedChannel | undefined;
  /** Where replies go that name no recipient while there is no last route: only with a default recipient of its own. */
  readonly fallback: LoadedChannel | undefined;
  /** Where a recipient that is named without a channel is looked for, after the channel of the last route. */
  readonly forRecipient: readonly LoadedChannel[];
  readonly loaded: readonly LoadedChannel[];
  /** Ids and aliases of all known channels, for messages and "did you mean". */
  readonly names: readonly string[];
  checkRecipient(id: string, to: string): RecipientCheck;
}
