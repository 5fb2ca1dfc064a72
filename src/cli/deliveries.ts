import type { Command } from "commander";
import { RETRIED_DELIVERIES } from "../admin/bulk-retry.ts";
import { connected, read, withId } from "./connect.ts";
import { usage } from "./failure.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { listing, reading, type CommonOptions, type PageOptions } from "./options.ts";
import { printBlock, printFields, printJson, printMore, printTable } from "./print.ts";
import { checkOne, readRetry, retryMany, retryingMany, type RetryOptions } from "./retry-many.ts";
import { readListPage } from "./search.ts";
import { cell, localTime, shortTime } from "./text.ts";

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
  printTable(
    io,
    ["DELIVERY", "CREATED", "STATUS", "CHANNEL", "TO", "SENT", "TRIES", "RUN OR ERROR"],
    rows,
  );
  printMore(io, "rouse deliveries list", answer);
}

async function show(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, async (to) =>
    read(to.api.deliveries[":id"].$get(withId(await resolveId(to, "deliveries", id)))),
  );
  if (options.json) return printJson(io, answer);
  const { delivery } = answer;
  const { error, nextAt, endedAt } = delivery;
  printFields(io, {
    delivery: delivery.id,
    status: delivery.status,
    error: error && `${error.code}: ${error.message}`,
    run: delivery.runId,
    approval: delivery.approvalId,
    channel: delivery.channel,
    to: delivery.to,
    thread: delivery.thread,
    sent: `${delivery.sentChunks} of ${delivery.chunks}`,
    files: delivery.files > 0 ? `${delivery.sentFiles} of ${delivery.files}` : null,
    warning: delivery.warnings.join("; "),
    tries: delivery.attempts,
    "message ids": delivery.messageIds.join(", "),
    created: localTime(delivery.createdAt),
    "next try": nextAt && localTime(nextAt),
    ended: endedAt && localTime(endedAt),
  });
  delivery.texts.forEach((text, index) =>
    printBlock(
      io,
      `message ${index + 1} (${index < delivery.sentChunks ? "sent" : "not sent"})`,
      text,
    ),
  );
  delivery.attached.forEach(({ name, mediaType, bytes }, index) =>
    printBlock(
      io,
      `file ${index + 1} (${index < delivery.sentFiles ? "sent" : "not sent"})`,
      `${name}, ${mediaType}, ${bytes} bytes`,
    ),
  );
}

const LATER = "no gateway runs just now: what is pending is sent with the next `rouse start`\n";

async function retryOne(id: string, options: RetryDeliveries, io: CliIo): Promise<void> {
  const query = { arrived: options.arrived ? ("1" as const) : undefined };
  const { live, ...answer } = await connected(options, io, async (to) => ({
    live: to.live,
    ...(await read(
      to.api.deliveries[":id"].retry.$post({
        ...withId(await resolveId(to, "deliveries", id)),
        query,
      }),
    )),
  }));
  if (options.json) return printJson(io, answer);
  const { delivery } = answer;
  io.out(`${delivery.id}  ${delivery.status}  ${delivery.channel} ${cell(delivery.to ?? "–")}\n`);
  if (!live) io.out(LATER);
}

interface RetryDeliveries extends RetryOptions {
  arrived?: boolean;
  failed?: boolean;
  route: boolean;
  status?: string;
  channel?: string;
}

const CHOOSING = ["failed", "status", "channel", "since", "until", "limit"] as const;

async function retry(id: string | undefined, options: RetryDeliveries, io: CliIo): Promise<void> {
  const named = [options.failed, !options.route, options.status !== undefined].filter(
    Boolean,
  ).length;
  const isMany = named > 0 || CHOOSING.some((name) => options[name] !== undefined);
  if (id !== undefined) {
    if (!options.route) throw usage("name one delivery, or use --no-route");
    checkOne(options, CHOOSING);
    return retryOne(id, options, io);
  }
  if (options.arrived) throw usage("--arrived goes with one delivery: name it");
  if (!isMany)
    throw usage(
      "name one delivery, or choose several with --no-route, --failed, --status, --channel or --since",
    );
  if (named > 1) throw usage("use one of --no-route, --failed and --status");
  const asked = options.route ? options.status : "no_route";
  const status = RETRIED_DELIVERIES.find((known) => known === asked);
  if (asked !== undefined && status === undefined)
    throw usage(`--status ${asked}: write ${RETRIED_DELIVERIES.join(", ")}`);
  const json = { status, channel: options.channel, ...readRetry(options, io) };
  await retryMany(options, io, ({ api }) => api.deliveries.retry.$post({ json }), LATER);
}

export function register(program: Command, io: CliIo): void {
  const deliveries = program.command("deliveries").description("replies on their way to a channel");
  listing(
    deliveries
      .command("list")
      .description("deliveries, newest first")
      .option(
        "--status <status>",
        "pending, delivered, failed, no_route (failed because no route was known) or unknown",
      )
      .option("--channel <id>", "of one channel"),
    "rouse deliveries list --status failed",
  ).action((options: ListOptions) => list(options, io));
  reading(
    deliveries
      .command("show <delivery>")
      .description("one delivery with its messages, its tries and its error"),
    "rouse deliveries show dlv_…",
  ).action((id: string, options: CommonOptions) => show(id, options, io));
  const command = deliveries
    .command("retry [delivery]")
    .description(
      "send again what failed, from the first chunk that was not sent; a reply without a route once there is one",
    )
    .option(
      "--arrived",
      "of one that is unknown: its message in doubt is in the chat, so go on after it",
    )
    .option("--no-route", "all replies that have no route")
    .option("--failed", "all that failed, also for want of a route")
    .option("--status <status>", `all of this status: ${RETRIED_DELIVERIES.join(", ")}`)
    .option("--channel <id>", "only those of one channel");
  reading(
    retryingMany(command),
    "rouse deliveries retry dlv_…",
    "rouse deliveries retry dlv_… --arrived",
    "rouse deliveries retry --no-route",
    "rouse deliveries retry --failed --since 1d --dry-run",
  ).action((id: string | undefined, options: RetryDeliveries) => retry(id, options, io));
}
