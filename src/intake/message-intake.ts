import type { Clock } from "../core/clock.ts";
import { safeError } from "../core/errors.ts";
import type { Logger } from "../core/log.ts";
import type { Approvals } from "../approvals/approvals.ts";
import type { KnownPeople } from "../people/people.ts";
import { steerRunning } from "../runs/steering.ts";
import { tellThatItWaits } from "../runs/waiting-notice.ts";
import type { ApprovalPress, ReceivedMessage } from "../contract/channel.ts";
import type { FencingToken, Store } from "../store/types.ts";
import { receiveMessage, receivePress } from "./channel-message.ts";
import { StrangerCount } from "./senders.ts";
import type { IntakeReceipt, Snapshot } from "./types.ts";

export interface MessageIntakeDeps {
  store: Store;
  clock: Clock;
  log: Logger;
  snapshot(): Snapshot;
  /** Records what a person decided about an approval. */
  approvals: Pick<Approvals, "decide">;
  people: KnownPeople;
  /** Starts a run again with the messages that came since, at whichever gateway executes it. */
  steer(runId: string): void;
  /** Shows the person that the message waits for its turn. */
  showThatItWaits(runId: string): void;
}

/** Processes what people write and press on channels. */
export interface MessageIntake {
  /**
   * Processes a message of a channel and resolves once it is on disk. Fails if the lease of `fencingToken` is lost.
   * @throws RouseError `store_unavailable`: the channel must hand the message over again.
   */
  receiveMessage(
    channel: string,
    message: ReceivedMessage,
    fencingToken?: FencingToken,
  ): Promise<IntakeReceipt>;
  /** Processes a button that a person pressed on a channel; `text` is for that person. Fails if the store cannot be reached. */
  receivePress(channel: string, press: ApprovalPress): Promise<{ text: string }>;
}

/** Creates the intake of messages and presses of channels. */
export function createMessageIntake(deps: MessageIntakeDeps): MessageIntake {
  const { store, clock, log, snapshot, steer, showThatItWaits } = deps;
  const strangers = new StrangerCount(clock);
  return {
    async receiveMessage(channel, message, fencingToken) {
      const context = snapshot();
      const receipt = await receiveMessage(
        { ...deps, strangers, context, now: clock.now() },
        channel,
        message,
        fencingToken,
      );
      const runId =
        receipt.outcome === "accepted"
          ? receipt.actions.map((action) => action.ok && action.runId)[0]
          : undefined;
      if (!runId) return receipt;
      const now = clock.now();
      const after: Promise<unknown>[] = [
        tellThatItWaits(runId, { store, context, now }).then((isTold) => {
          if (!isTold) showThatItWaits(runId);
        }),
      ];
      if (context.config.sessions.messages === "interrupt")
        after.push(steerRunning(runId, { store, steer, now }));
      // The message is on disk: what is done about it now must not make the channel hand it over again.
      for (const done of await Promise.allSettled(after))
        if (done.status === "rejected")
          log.warn(
            { err: safeError(done.reason), runId },
            "what a message changes for other turns could not be done",
          );
      return receipt;
    },
    receivePress: (channel, press) =>
      receivePress({ ...deps, context: snapshot(), now: clock.now() }, channel, press),
  };
}
