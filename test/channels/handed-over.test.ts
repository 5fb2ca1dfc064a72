/** Messages of `samples`, each with what its channel hands over, or the reason why it is not for the agent. */
import { expect, it, onTestFinished, vi } from "vitest";
import { listening, testHost, type Received } from "./gateway.ts";
import { openChannel } from "./open.ts";
import { samplesOf } from "./samples.ts";
import { VENDORS } from "./vendors.ts";

/** Describes a message without its id and time. A thread that the message itself begins is `own`. */
function describeMessage({ id, text, parts, thread, ...place }: Received): object {
  const others = parts.filter(({ kind }) => kind !== "own");
  // On Telegram no message begins a thread, and the short number of one may end like that of a message.
  const begins = thread !== undefined && thread.length > 9 && id.endsWith(thread);
  return {
    ...place,
    ...(thread !== undefined && { thread: begins ? "own" : thread }),
    text,
    ...(others.length > 0 && { others }),
  };
}

it.each(VENDORS.filter(({ id }) => samplesOf(id).handed))(
  "$id hands over messages for the agent as they are, and says why others are not",
  async ({ id, section, start }) => {
    const far = await start();
    onTestFinished(() => far.close());
    const { channel } = await openChannel(id, section(far.url), Date.now);
    const host = testHost();
    const isPosted = channel.request !== undefined && id !== "telegram";
    if (!isPosted) listening(channel, host);
    if (!isPosted) await vi.waitFor(() => expect(host.states.at(-1)?.ok).toBe(true));
    const handed = samplesOf(id).handed ?? [];
    const seen: object[] = [];
    for (const { text, more, received, skipped } of handed) {
      const before = host.received.length + host.skipped.length;
      const request = await far.sends.raw(text, more);
      if (request) expect((await channel.request?.(request, host))?.status).toBeLessThan(300);
      if (received ?? skipped)
        await vi.waitFor(() =>
          expect(host.received.length + host.skipped.length).toBeGreaterThan(before),
        );
      const [message] = host.received.splice(0);
      const [passed] = host.skipped.splice(0);
      seen.push(
        message ? { received: describeMessage(message) } : { skipped: passed?.skipped ?? null },
      );
    }
    // Messages that are not handed over immediately are not handed over later either.
    expect([host.received, host.skipped]).toEqual([[], []]);
    expect(handed.map(({ what }, at) => ({ what, ...seen[at] }))).toEqual(
      handed.map(({ what, received, skipped }) => ({
        what,
        ...(received ? { received } : { skipped }),
      })),
    );
  },
);
