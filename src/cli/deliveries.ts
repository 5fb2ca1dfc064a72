import type { Command } from "commander";
import { connected } from "./connect.ts";
import { resolveId } from "./ids.ts";
import type { CliIo } from "./io.ts";
import { listing, query, reading, type CommonOptions } from "./options.ts";
import { printJson, printMore, printTable } from "./print.ts";
import { shortTime } from "./text.ts";

interface ListOptions extends CommonOptions {
  status?: string;
  channel?: string;
  since?: string;
  limit?: string;
  before?: string;
}

async function list(options: ListOptions, io: CliIo): Promise<void> {
  const { status, channel, since, limit } = options;
  const answer = await connected(options, io, async (to) => {
    const before = options.before && (await resolveId(to, "deliveries", options.before));
    return to.request("deliveries", "GET", `deliveries${query({ status, channel, since, limit, before })}`);
  });
  if (options.json) return printJson(io, answer);
  const rows = answer.deliveries.map((delivery) => [
    delivery.id,
    shortTime(delivery.createdAt, io.now()),
    delivery.status,
    delivery.channel,
    delivery.to,
    `${delivery.sentChunks}/${delivery.chunks}`,
    String(delivery.attempts),
    delivery.error ? `${delivery.error.code}: ${delivery.error.message}` : delivery.runId,
  ]);
  printTable(io, ["DELIVERY", "CREATED", "STATUS", "CHANNEL", "TO", "SENT", "TRIES", "RUN OR ERROR"], rows);
  printMore(io, "rouse deliveries list", answer.next);
}

async function retry(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  const { live, answer } = await connected(options, io, async (to) => ({
    live: to.live,
    answer: await to.request("delivery", "POST", `deliveries/${await resolveId(to, "deliveries", id)}/retry`),
  }));
  if (options.json) return printJson(io, answer);
  io.out(`${answer.delivery.id}  ${answer.delivery.status}\n`);
  if (!live) io.out("no gateway runs just now: it is sent with the next `rouse start`\n");
}

export function registerDeliveries(program: Command, io: CliIo): void {
  const deliveries = program.command("deliveries").description("replies on their way to a channel");
  listing(
    deliveries
      .command("list")
      .description("deliveries, newest first")
      .option("--status <status>", "pending, delivered, failed or unknown")
      .option("--channel <id>", "of one channel"),
    "rouse deliveries list --status failed",
  ).action((options: ListOptions) => list(options, io));
  reading(
    deliveries.command("retry <delivery>").description("send again what failed, from the first piece that was not sent"),
    "rouse deliveries retry dlv_…",
  ).action((id: string, options: CommonOptions) => retry(id, options, io));
}
