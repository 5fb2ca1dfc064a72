import type { Page } from "playwright-core";
import { sessionName, type SessionPlace } from "../../console/src/session-name.ts";
import type { Scene } from "./camera.ts";
import type { Gallery } from "./world.ts";

const REFRESH_MS = 6500;
const UNAVAILABLE = {
  error: { code: "store_unavailable", message: "The store does not answer. Look at store.url." },
};
const SIGNED_OUT = { error: { code: "signed_out", message: "Sign in first." } };

/** Fails each request of the page. */
const failing =
  (status: number, json: object) =>
  (page: Page): Promise<unknown> =>
    page.route("**/admin/v1/**", (route) => route.fulfill({ status, json }));

/** The gateway goes away while the page is shown. The page asks again by its clock, which is put forward. */
async function loseGateway(page: Page): Promise<void> {
  await page.locator("main h1").first().waitFor();
  await page.locator("main .skeleton").first().waitFor({ state: "detached" });
  await page.route("**/admin/v1/**", (route) => route.abort());
  await page.clock.fastForward(REFRESH_MS);
  await page.getByText("The gateway has not answered since").waitFor();
}

/** Waits until the gateway has evaluated the text of a mapping for the event, and for those before it. */
async function awaitAnswers(page: Page): Promise<void> {
  await page.getByText("took it").first().waitFor();
  await page.getByText("text changed").first().waitFor();
}

/** Pages that show one of their rows by its id. */
const WITH_ROWS = [
  "live",
  "events",
  "failures",
  "runs",
  "approvals",
  "mappings",
  "documents",
  "sessions",
  "deliveries",
];

/** Each page as it is without a row chosen, in each state in which it has nothing to show, and with a row that is gone. */
export const toStates = (pages: readonly string[]): Scene[] =>
  pages.flatMap((name) => [
    { name: `${name}-failed`, hash: `#/${name}`, before: failing(503, UNAVAILABLE) },
    { name: `${name}-signed-out`, hash: `#/${name}`, before: failing(401, SIGNED_OUT) },
    { name: `${name}-away`, hash: `#/${name}`, arrange: loseGateway },
    ...(WITH_ROWS.includes(name)
      ? [
          {
            name: `${name}-gone`,
            hash: `#/${name}/${encodeURIComponent("ops/hook/no-longer-kept")}`,
          },
        ]
      : []),
  ]);

/** The details of rows that show most: an event with a run, a run with tool calls, a call that waits, and so on. */
export async function findDetails({ admin }: Pick<Gallery, "admin">): Promise<Scene[]> {
  const read = async (
    path: string,
    member: string,
  ): Promise<{ id: string; [field: string]: unknown }[]> => (await admin(path))[member];
  const events = await read("/events?mapping=shop.refund&limit=9", "events");
  const unmatched = await read("/events?outcome=unmatched&path=stripe&limit=1", "events");
  const failedEvents = await read("/events?outcome=failed&limit=1", "events");
  const waiting = await read("/runs?status=waiting&limit=1", "runs");
  const done = await read("/runs?status=succeeded&limit=40", "runs");
  const failedRuns = await read("/runs?status=failed&limit=1", "runs");
  const failures = await read("/failures?limit=1", "failures");
  const approvals = await read("/approvals?state=open", "approvals");
  const failedDeliveries = await read("/deliveries?status=failed&limit=1", "deliveries");
  const sessions = await read("/sessions?origin=hook&limit=9", "sessions");
  const documents = await read("/knowledge/documents", "documents");
  const refunded = done.find(({ name }) => String(name).startsWith("Refund")) ?? done[0];
  const session = sessions.find(({ key }) => String(key).startsWith("hook:shop")) ?? sessions[0];
  const event = events.at(-1);
  const row = (name: string, page: string, id: unknown): Scene[] =>
    typeof id === "string" ? [{ name, hash: `#/${page}/${encodeURIComponent(id)}` }] : [];
  return [
    ...row("events-detail", "events", event?.id),
    ...row("events-unmatched", "events", unmatched[0]?.id),
    ...row("events-broken", "events", failedEvents[0]?.id),
    ...row("live-detail", "live", event?.id),
    ...row("runs-detail", "runs", refunded?.id),
    ...row("runs-waiting", "runs", waiting[0]?.id),
    ...row("runs-failed", "runs", failedRuns[0]?.id),
    ...row("failures-detail", "failures", failures[0]?.id),
    ...row("approvals-detail", "approvals", approvals[0]?.id),
    ...row("deliveries-detail", "deliveries", failedDeliveries[0]?.id),
    ...row(
      "sessions-detail",
      "sessions",
      session && sessionName(session as unknown as SessionPlace),
    ),
    ...row("documents-detail", "documents", documents[0]?.id),
    { name: "documents-search", hash: "#/documents?q=damaged+parcel" },
    {
      name: "mappings-detail",
      hash: `#/mappings/shop.refund?event=${event?.id ?? ""}`,
      arrange: awaitAnswers,
    },
    { name: "approvals-rules", hash: "#/approvals?show=rules" },
    ...["channels", "dependencies", "doctor", "config", "keys"].map((tab) => ({
      name: `system-${tab}`,
      hash: `#/system/${tab}`,
    })),
  ];
}

/** A conversation of one turn. */
export const CHAT: Scene = {
  name: "chat-turn",
  hash: "#/chat?agent=support",
  async arrange(page) {
    const field = page.getByLabel("Message");
    await field.waitFor();
    if ((await page.locator(".chat-turn").count()) > 0) return;
    await field.fill("Check the order A-1204: has the parcel arrived?");
    await field.press("Enter");
    await page
      .locator(".chat-foot")
      .getByText("done")
      .or(page.locator(".chat-foot").getByText("succeeded"))
      .first()
      .waitFor();
  },
};
