import fc from "fast-check";
import { expect, it } from "vitest";
import { checkAgent } from "../../src/turns/validate.ts";
import type { ActionContext } from "../../src/turns/types.ts";
import { configSchema } from "../../src/config/schema/index.ts";
import {
  createChannels,
  findRouteProblem,
  resolveRoute,
  type Channels,
} from "../../src/delivery/channels.ts";
import { planReply } from "../../src/delivery/plan.ts";
import type { Channel } from "../../src/plugin/api.ts";
import type { LastRoute, RouteDecision, HookSpec, Reads } from "../../src/store/types.ts";

const like = (pattern: RegExp, to: (text: string) => string): Channel["parseRecipient"] => {
  return (text) =>
    pattern.test(text) ? { ok: true, to: to(text) } : { ok: false, message: "has another form" };
};
/** The recipients of channels, by their parsers: some differ, some overlap, and one channel takes any text. */
const PARSERS = {
  phone: like(/^\+?\d{3,}$/, (text) => `+${text.replace("+", "")}`),
  chat: like(/^-?\d{3,}$/, (text) => text),
  room: like(/^#?[a-z]+$/i, (text) => text.replace("#", "").toLowerCase()),
  any: undefined,
};
type Id = keyof typeof PARSERS;
const IDS = Object.keys(PARSERS) as Id[];
const RECIPIENTS = ["111", "+222", "-333", "#Ops", "ops", "bob smith", "", " "];
/** A recipient that each channel accepts. */
const OWN: Record<Id, string> = { phone: "+900", chat: "901", room: "lobby", any: "anybody" };

type Drawn<A> = A extends fc.Arbitrary<infer T> ? T : never;
const channel = fc.record({
  defaultTo: fc.boolean(),
  fallback: fc.boolean(),
  receives: fc.boolean(),
  allowed: fc.boolean(),
});
const world = fc.record({
  configured: fc.dictionary(fc.constantFrom(...IDS), channel),
  console: fc.boolean(),
  lastRoutes: fc.uniqueArray(fc.constantFrom<string>(...IDS, "gone")),
});
const asked = fc.record(
  {
    channel: fc.constantFrom("last", ...IDS, "console"),
    to: fc.constantFrom(...RECIPIENTS),
    fromRequest: fc.boolean(),
  },
  { requiredKeys: ["fromRequest"] },
);

const send = async () => ({ status: "sent" as const });

function build({
  configured,
  console,
}: {
  configured: Record<string, Drawn<typeof channel>>;
  console: boolean;
}): Channels {
  const loaded = Object.entries(configured).map(
    ([name, { defaultTo, fallback, receives, allowed }]): [string, Channel] => {
      const id = name as Id;
      const parse = PARSERS[id];
      return [
        id,
        {
          send,
          ...(parse && { parseRecipient: parse }),
          ...(defaultTo && { defaultTo: OWN[id] }),
          fallback,
          ...(receives && { listen: async () => undefined }),
          allowFrom: allowed ? ["owner"] : [],
        },
      ];
    },
  );
  // As in the host, the console is enabled by itself if there is no other channel.
  const always: [string, Channel][] =
    console || loaded.length === 0
      ? [["console", { send, defaultTo: "terminal", fallback: true }]]
      : [];
  return createChannels(
    [...IDS, "console"].map((id) => ({ id })),
    new Map([...loaded, ...always]),
    new Set(["console"]),
  );
}

function lastRoutesOf(ids: readonly string[]): Reads {
  const listLastRoutes = async (agentId: string): Promise<LastRoute[]> =>
    ids.map((id) => ({ agentId, channel: id, to: OWN[id as Id] ?? "somebody", at: 1 }));
  return { sessions: { listLastRoutes } } as Reads;
}

function accept(
  channels: Channels,
  { fromRequest, ...fields }: Drawn<typeof asked>,
): HookSpec | undefined {
  const agents = { default: { id: "main" }, get: () => ({ id: "main" }) };
  const context = {
    channels,
    agents,
    rooms: { ownerChannels: new Set(channels.loaded.map(({ id }) => id)) },
    config: configSchema.parse({}),
  } as unknown as ActionContext;
  const source = { hook: "agent", unsafe: false, fromRequest, now: 1 };
  const checked = checkAgent([{ text: "x", outside: true }], fields, source, context, []);
  return checked.ok ? checked.action.spec : undefined;
}

const route = async (
  channels: Channels,
  lastRoutes: readonly string[],
  spec: HookSpec,
): Promise<RouteDecision> => {
  const store = lastRoutesOf(lastRoutes);
  return resolveRoute({ store, channels, agentId: "main", ...spec.target });
};

it("routes: a reply that names a recipient goes to that recipient, on the named channel if there is one, or to no one", async () => {
  let sent = 0;
  await fc.assert(
    fc.asyncProperty(world, asked, async (given, request) => {
      const channels = build(given);
      const spec = accept(channels, request);
      if (!spec) return;
      const decision = await route(channels, given.lastRoutes, spec);
      const planned = planReply("run_1", decision, {
        target: spec.target,
        text: "the reply",
        channels,
        now: 1,
      });
      if (!planned?.job || request.to === undefined) return;
      sent++;
      const { channel: id, to } = planned.delivery.route;
      const normal = channels.checkRecipient(id, request.to);
      expect(normal).toEqual({ ok: true, to });
      if (request.channel !== undefined && request.channel !== "last")
        expect(id).toBe(request.channel);
      // Beside a configured channel the terminal is no place for what is meant for one person.
      if (id === "console" && request.channel !== "console")
        expect(Object.keys(given.configured)).toEqual([]);
    }),
    { numRuns: 2000 },
  );
  expect(sent).toBeGreaterThan(200);
});

it("routes: a problem is found exactly if the owner cannot create a route by writing", async () => {
  let found = 0;
  await fc.assert(
    fc.asyncProperty(world, asked, async (given, request) => {
      const channels = build(given);
      const spec = accept(channels, request);
      if (!spec) return;
      const { channel: name, to } = spec.target;
      const owned = Object.entries(given.configured).flatMap(([id, { receives, allowed }]) =>
        receives && allowed ? [id] : [],
      );
      const problem = findRouteProblem(
        to === undefined ? { channel: name } : { channel: name, to },
        channels,
        new Set(owned),
      );
      const decisions = await Promise.all(
        [[], ...owned.map((id) => [id])].map((ids) => route(channels, ids, spec)),
      );
      expect(problem === undefined).toBe(decisions.some(({ status }) => status === "route"));
      if (problem) found++;
    }),
    { numRuns: 1000 },
  );
  expect(found).toBeGreaterThan(100);
});
