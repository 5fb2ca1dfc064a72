import { describe, expect, it } from "vitest";
import type { Source, SourceHost } from "../contract/kinds.ts";
import {
  expectNoSecret,
  expectText,
  openForEachTest,
  until,
  within,
  type Harness,
  type Open,
} from "./harness.ts";

export interface SourceHarness extends Harness {
  /** Creates the source, as the gateway does at each start. */
  create(): Source;
  /**
   * Makes an event with this text at the far side. If the vendor posts events to a webhook, returns its request: the suite
   * passes it to `request`.
   */
  emit(text: string): Promise<Request | undefined>;
  /** The webhook's request from somebody else, whom the source must refuse. */
  forged?(): Promise<Request>;
  /** Texts that may not be in any report: credentials. */
  secrets?: readonly string[];
}

const END_MS = 5_000;

/** A gateway that keeps what it is handed, and can refuse it. */
class TestHost implements SourceHost {
  readonly events: { path: string; text: string }[] = [];
  readonly reports: { ok: boolean; message: string }[] = [];
  /** The number of events, from the next one on, that the gateway refuses. */
  refusals = 0;
  place: string | undefined;

  async hook(path: string, body: unknown): Promise<{ status: number; body: unknown }> {
    if (this.refusals > 0) {
      this.refusals--;
      return { status: 503, body: { error: { code: "store_unavailable" } } };
    }
    this.events.push({ path, text: JSON.stringify(body) });
    return { status: 202, body: { eventId: `evt_${this.events.length}` } };
  }
  async cursor(): Promise<string | undefined> {
    return this.place;
  }
  async saveCursor(cursor: string): Promise<void> {
    expectText(cursor);
    this.place = cursor;
  }
  readonly documents: SourceHost["documents"] = {
    sync: () =>
      Promise.reject(new Error("this suite is for sources of events: it keeps no documents")),
  };
  report(state: { ok: boolean; message: string }): void {
    this.reports.push(state);
  }
  /** Counts the events that hold this text. */
  count(text: string): number {
    return this.events.filter((event) => event.text.includes(text)).length;
  }
}

/** Runs a source as the gateway does: one that fails or ends by itself is started again. */
function runSource(harness: SourceHarness, host: TestHost) {
  const ending = new AbortController();
  let source = harness.create();
  const run = async (): Promise<void> => {
    while (!ending.signal.aborted) {
      await source.start(ending.signal, host).catch(() => undefined);
      if (ending.signal.aborted) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
      source = harness.create();
    }
  };
  const running = run();
  return {
    request: async (request: Request) => source.request?.(request),
    async stop() {
      ending.abort();
      await within(END_MS, "the end of `start`", running);
    },
  };
}

/** Emits an event, again as a vendor does while its webhook is answered with an error, and waits until the gateway has it. */
async function deliver(
  text: string,
  harness: SourceHarness,
  host: TestHost,
  running: ReturnType<typeof runSource>,
): Promise<void> {
  for (let tries = 0; tries < 3; tries++) {
    const request = tries === 0 || host.count(text) === 0 ? await harness.emit(text) : undefined;
    if (!request) break;
    const answer = await running.request(request);
    if (answer !== undefined && answer.status < 300) break;
  }
  await until(() => host.count(text) > 0);
  expect([text, host.count(text) > 0]).toEqual([text, true]);
}

/** Declares the tests that every source passes: no event is lost, and it goes on where it stopped. */
export function testSource(name: string, open: Open<SourceHarness>): void {
  describe(`source ${name}`, () => {
    const harness = openForEachTest(open);

    it("hands events over to a hook path, reports its state, and stops when its signal aborts", async () => {
      const host = new TestHost();
      const running = runSource(harness(), host);
      await deliver("first-event", harness(), host, running);
      await deliver("second-event", harness(), host, running);
      await running.stop();
      for (const { path } of host.events)
        expect(path).toMatch(/^[A-Za-z0-9._-]+(?:\/[A-Za-z0-9._-]+)*$/);
      for (const { message } of host.reports) expectText(message);
      expectNoSecret(JSON.stringify(host.reports), harness().secrets ?? []);
    });

    it("hands an event over again that the gateway could not take", async () => {
      const host = new TestHost();
      const running = runSource(harness(), host);
      await deliver("taken-event", harness(), host, running);
      host.refusals = 1;
      await deliver("refused-event", harness(), host, running);
      await running.stop();
      expect(host.refusals).toBe(0);
    });

    it("goes on where it stopped: nothing that was taken comes again, and nothing is lost between", async () => {
      const host = new TestHost();
      const first = runSource(harness(), host);
      await deliver("before-the-stop", harness(), host, first);
      await first.stop();
      const between = await harness().emit("between");
      const second = runSource(harness(), host);
      if (between) await second.request(between);
      await deliver("after-the-start", harness(), host, second);
      await second.stop();
      expect(
        ["before-the-stop", "between", "after-the-start"].map((text) => host.count(text)),
      ).toEqual([1, 1, 1]);
    });

    it("answers 4xx to a webhook of somebody else, and hands nothing over", async () => {
      const { forged } = harness();
      if (!forged) return;
      const host = new TestHost();
      const running = runSource(harness(), host);
      const answer = await running.request(await forged());
      await running.stop();
      expect([Math.floor((answer?.status ?? 0) / 100), host.events]).toEqual([4, []]);
    });
  });
}
