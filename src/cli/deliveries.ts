import type { Command } from "commander";
import { RouseError } from "../core/errors.ts";
import type { DeliveryView } from "../admin/views.ts";
import { connected, read, withId, type GatewayConnection } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import { EXIT, type CliIo } from "./io.ts";
import { listing, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printJson, printMore, printTable } from "./print.ts";
import { readListPage } from "./search.ts";
import { cell, shortTime } from "./text.ts";

interface ListOptions extends PageOptions {
  status?: string;
  channel?: string;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const { status, channel, since, limit } = options;
  const answer = await connected(options, io, async (to) => {
    const before = options.before && (await resolveId(to, "deliveries", options.before));
    return readListPage(
      io,
      { before, limit },
      (page) => read(to.api.deliveries.$get({ query: { status, channel, since, ...page } })),
      (page) => page.deliveries,
    );
  });
  if (options.json) return printJson(io, answer);
  const { deliveries } = answer;
  const rows = deliveries.map((delivery) => [
    delivery.id,
    shortTime(delivery.createdAt, io.now()),
    delivery.status,
    delivery.channel,
    delivery.to ?? "–",
    `${delivery.sentChunks}/${delivery.chunks}`,
    String(delivery.attempts),
    delivery.error ? `${delivery.error.code}: ${delivery.error.message}` : delivery.runId,
  ]);
  printTable(io, ["DELIVERY", "CREATED", "STATUS", "CHANNEL", "TO", "SENT", "TRIES", "RUN OR ERROR"], rows);
  printMore(io, "rouse deliveries list", answer);
}

const retryOne = ({ api }: GatewayConnection, id: string) => read(api.deliveries[":id"].retry.$post(withId(id)));

const printRetried = (io: CliIo, { id, status, channel, to }: DeliveryView): void =>
  io.out(`${id}  ${status}  ${channel} ${cell(to ?? "–")}\n`);

const printLater = (io: CliIo): void => io.out("no gateway runs just now: what is pending is sent with the next `rouse start`\n");

async function retry(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await retryOne(to, await resolveId(to, "deliveries", id))),
  }));
  if (options.json) return printJson(io, answer);
  const { delivery } = answer;
  printRetried(io, delivery);
  if (!live) printLater(io);
}

/** Lists the ids of all replies that have no route, the oldest first. */
async function listUnrouted(to: GatewayConnection): Promise<string[]> {
  const ids: string[] = [];
  let before: string | undefined;
  do {
    const page = await read(to.api.deliveries.$get({ query: { status: "no_route", limit: "500", before } }));
    ids.push(...page.deliveries.map(({ id }) => id));
    before = page.next ?? undefined;
  } while (before !== undefined);
  return ids.toReversed();
}

/** Retries every reply that has no route. Exit code 1 if some still have none. */
async function retryAll(options: CommonOptions, io: CliIo): Promise<void> {
  const deliveries: DeliveryView[] = [];
  const failed: { id: string; code: string; message: string }[] = [];
  const live = await connected(options, io, async (to) => {
    for (const id of await listUnrouted(to)) {
      try {
        deliveries.push((await retryOne(to, id)).delivery);
      } catch (error) {
        if (!(error instanceof RouseError)) throw error;
        failed.push({ id, code: error.code, message: error.message });
      }
    }
    return to.live;
  });
  if (failed.length > 0) io.exitCode = EXIT.failure;
  if (options.json) return printJson(io, { deliveries, failed });
  for (const delivery of deliveries) printRetried(io, delivery);
  for (const { id, message } of failed) io.out(`${id}  ${cell(message)}\n`);
  io.out(`${deliveries.length} retried, ${failed.length} failed\n`);
  if (!live && deliveries.length > 0) printLater(io);
}

export function register(program: Command, io: CliIo): void {
  const deliveries = program.command("deliveries").description("replies on their way to a channel");
  listing(
    deliveries
      .command("list")
      .description("deliveries, newest first")
      .option("--status <status>", "pending, delivered, failed, no_route (failed because no route was known) or unknown")
      .option("--channel <id>", "of one channel"),
    "rouse deliveries list --status failed",
  ).action((options: ListOptions) => list(options, io));
  reading(
    deliveries
      .command("retry [delivery]")
      .description("send again what failed, from the first chunk that was not sent; a reply without a route once there is one")
      .option("--no-route", "all replies that have no route"),
    "rouse deliveries retry dlv_…",
    "rouse deliveries retry --no-route",
  ).action((id: string | undefined, { route, ...options }: CommonOptions & { route: boolean }) => {
    if ((id === undefined) === route) throw usage("name one delivery, or use --no-route");
    return id === undefined ? retryAll(options, io) : retry(id, options, io);
  });
}
