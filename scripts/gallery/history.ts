import { createSenders, type Hook, type Senders } from "./senders.ts";
import type { Gallery } from "./world.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Kinds of hooks, each with how often it comes. */
const OFTEN: readonly (readonly [keyof Senders, number])[] = [
  ["issue", 5],
  ["pull", 7],
  ["workflow", 2],
  ["star", 3],
  ["release", 1],
  ["paymentFailed", 4],
  ["dispute", 1],
  ["charge", 4],
  ["order", 9],
  ["basket", 3],
  ["stock", 3],
  ["invoice", 1],
  ["alert", 5],
  ["broken", 1],
];
const DECK = OFTEN.flatMap(([kind, times]) => Array.from({ length: times }, () => kind));

const DOCUMENTS = [
  [
    "Returns and refunds.md",
    "# Returns\n\nCustomers may return what they bought within 30 days.\n\n## Damaged parcels\n\nIf a parcel arrives damaged, refund the whole amount. Ask for a photograph first.\n\n## Gift cards\n\nGift cards are not refunded in cash.",
  ],
  [
    "Runbook checkout.md",
    "# Checkout\n\n## 5xx above 2 %\n\nCompare with the last deployment. Roll back with `deploy rollback checkout`, then open an incident.\n\n## Payments hang\n\nLook at the status page of the payment provider.",
  ],
  [
    "Shipping.md",
    "# Shipping\n\nOrders that come in before 14:00 leave the warehouse on the same day.\n\n## Countries\n\nAustria, Germany, Italy and Slovenia by DHL; elsewhere by post.\n\n## Delays\n\nIf a parcel has not moved for five days, ask the carrier, and tell the customer what it says.",
  ],
  [
    "Disputes.md",
    "# Disputes\n\nAnswer a dispute within seven days, with the invoice and the proof of delivery.\n\n## Amounts below 20 EUR\n\nAccept them.",
  ],
  [
    "On-call.md",
    "# On-call\n\nPages go to the engineer on call, warnings to the channel of the team. Hand over on Monday at 10:00.",
  ],
] as const;

/** Answers what waits for a person: most calls are approved, some are denied. */
async function decide({ admin, clock, random }: Gallery): Promise<void> {
  const { approvals } = await admin("/approvals?state=open");
  for (const { id } of approvals as { id: string }[]) {
    clock.skip(4 * MINUTE_MS);
    const isApproved = random() < 0.75;
    await admin(
      `/approvals/${id}`,
      "POST",
      isApproved
        ? { verdict: "approve" }
        : { verdict: "deny", note: "Ask for a photograph first." },
    );
  }
}

/** Lets a hook come in, sometimes with a trouble, and waits for what it causes. */
async function take(gallery: Gallery, hook: Hook): Promise<void> {
  const { troubles, random, slack } = gallery;
  const dice = random();
  if (dice < 0.05) troubles.busy = 1;
  else if (dice < 0.07) troubles.refused = 2;
  else if (dice < 0.11) slack.fail({ error: "channel_not_found" }, 1);
  await gallery.post(hook);
  if (dice > 0.96) await gallery.post(hook);
  await gallery.settle();
}

/** Some days with a few hooks, the last hours with more, and an hour with several a minute. */
async function playPast(gallery: Gallery, senders: Senders, now: number): Promise<void> {
  const { clock, random } = gallery;
  const next = (): Hook => senders[DECK[Math.floor(random() * DECK.length)] as keyof Senders]();
  for (let day = 8; day >= 1; day--) {
    clock.skipTo(now - day * DAY_MS - 6 * 60 * MINUTE_MS);
    for (let n = 0; n < 3 + (day % 4) * 2; n++) {
      await take(gallery, next());
      clock.skip(20 * MINUTE_MS * random());
    }
  }
  for (let minutes = 480; minutes > 60; minutes -= 9) {
    clock.skipTo(now - minutes * MINUTE_MS);
    await take(gallery, next());
    if (minutes % 5 === 0) await take(gallery, next());
    if (minutes % 12 === 0) await take(gallery, senders.refund());
    if (minutes > 120) await decide(gallery);
  }
  for (let minutes = 60; minutes > 7; minutes--) {
    clock.skipTo(now - minutes * MINUTE_MS);
    const hooks = Math.round(1.4 + 0.9 * Math.sin(minutes / 6) + 1.6 * random());
    for (let n = 0; n < hooks; n++) await take(gallery, next());
  }
}

/** The last minutes: what waits, what is under way, and what is away. */
async function playPresent(gallery: Gallery, senders: Senders, now: number): Promise<void> {
  const { clock, troubles, slack } = gallery;
  clock.skipTo(now - 6.5 * MINUTE_MS);
  for (const hook of [senders.refund(), senders.issue(), senders.refund()]) {
    await gallery.post(hook);
    await gallery.settle();
  }
  troubles.isAway = true;
  for (let n = 0; n < 3; n++) {
    await gallery.post(senders.newsletter());
    clock.skip(8000);
  }
  await gallery.settle();
  slack.fail({ error: "is_archived" }, 1);
  await gallery.post(senders.pull());
  await gallery.settle();
  clock.skipTo(now - 70_000);
  troubles.hangs = 1;
  await gallery.post(senders.alert());
  await new Promise((resolve) => setTimeout(resolve, 300));
  await gallery.post(senders.star());
  await gallery.post(senders.order());
  for (const address of ["203.0.113.9", "203.0.113.9", "198.51.100.77", "203.0.113.9"])
    await gallery.knock("github", address);
  await gallery.knock("shop", "198.51.100.77", { authorization: "Bearer an-old-token" });
  await gallery.settle(1);
}

/** Adds work of people: documents. */
async function work({ admin }: Gallery): Promise<void> {
  for (const [name, text] of DOCUMENTS) {
    const { document } = await admin(
      `/knowledge/documents?filename=${encodeURIComponent(name)}`,
      "POST",
      text,
    );
    await admin(`/knowledge/documents/${document.id}?wait=20`);
  }
}

/** Fills a gateway with a history that ends now. */
export async function play(gallery: Gallery): Promise<void> {
  const senders = createSenders(gallery.random);
  // The history takes some real time, after which its end is the present.
  const now = Date.now() + 5000;
  await playPast(gallery, senders, now);
  await playPresent(gallery, senders, now);
  await work(gallery);
  gallery.clock.arrive();
}
