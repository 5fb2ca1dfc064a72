import type { Command } from "commander";
import type { KeyView } from "../admin/keys.ts";
import { SCOPES } from "../config/schema/gateway.ts";
import { connected, read, withId } from "./connect.ts";
import { usage } from "./failure.ts";
import type { CliIo } from "./io.ts";
import { reading, type CommonOptions } from "./options.ts";
import { printFields, printJson, printTable } from "./print.ts";
import { cell, shortTime } from "./text.ts";

interface CreateOptions extends CommonOptions {
  tenant?: string;
  agents?: string;
  scopes?: string;
  rate?: string;
  userAsSession?: boolean;
  clean?: string;
}

const words = (text: string): string[] => text.split(/[,\s]+/).filter((word) => word !== "");

/** `60/1m`: so many requests within a time. */
function parseRate(text: string): { requests: number; per: string } {
  const found = /^(\d+)\/(\S+)$/.exec(text);
  if (!found) throw usage(`--rate ${text}: write <requests>/<time>, for example 60/1m`);
  return { requests: Number(found[1]), per: found[2] as string };
}

const renderLimit = ({ rateLimit }: KeyView): string =>
  rateLimit ? `${rateLimit.requests}/${rateLimit.perSeconds}s` : "–";

async function create(
  id: string,
  { tenant, agents, scopes, rate, userAsSession, clean, ...options }: CreateOptions,
  io: CliIo,
): Promise<void> {
  const json = {
    id,
    tenant,
    agents: agents === undefined ? undefined : words(agents),
    // The gateway says which scopes there are.
    scopes: scopes === undefined ? undefined : (words(scopes) as KeyView["scopes"]),
    rateLimit: rate === undefined ? undefined : parseRate(rate),
    userAsSession,
    // The gateway says which there are, of these too.
    clean: clean as KeyView["clean"] | undefined,
  };
  const answer = await connected(options, io, ({ api }) => read(api.keys.$post({ json })));
  if (options.json) return printJson(io, answer);
  const { key, secret } = answer;
  printFields(io, {
    id: key.id,
    tenant: key.tenant,
    agents: key.agents?.join(" ") ?? "all",
    scopes: key.scopes.join(" "),
    "rate limit": key.rateLimit ? renderLimit(key) : null,
  });
  io.out(`\n${secret}\n\nThis is the only time it is shown: only its hash is kept.\n`);
}

async function list(options: CommonOptions, io: CliIo): Promise<void> {
  const answer = await connected(options, io, ({ api }) => read(api.keys.$get()));
  if (options.json) return printJson(io, answer);
  const { keys } = answer;
  const rows = keys.map((key) => [
    key.id,
    key.tenant,
    key.agents?.join(" ") ?? "all",
    renderLimit(key),
    shortTime(key.createdAt, io.now()),
    key.source,
    key.scopes.join(" "),
  ]);
  printTable(io, ["KEY", "TENANT", "AGENTS", "RATE", "MADE", "FROM", "SCOPES"], rows);
}

async function revoke(id: string, options: CommonOptions, io: CliIo): Promise<void> {
  await connected(options, io, ({ api }) => api.keys[":id"].$delete(withId(id)));
  if (options.json) printJson(io, { revoked: id });
  else io.out(`${cell(id)}  revoked; requests with it are rejected from now on\n`);
}

export function register(program: Command, io: CliIo): void {
  const keys = program.command("keys").description("keys of the platform API");
  reading(
    keys
      .command("create <id>")
      .description("make a key, and show it this once")
      .option("--tenant <id>", "whose documents its turns see (default: default)")
      .option("--agents <ids>", "the agents it may use, with commas between (default: all)")
      .option(
        "--scopes <scopes>",
        `what it may do: ${SCOPES.join(", ")} (default: chat,agents:read)`,
      )
      .option("--rate <n/time>", "so many requests within a time, for example 60/1m")
      .option("--user-as-session", "take the field `user` for the session's id")
      .option(
        "--clean <what>",
        "what is disarmed in answers: images, or none for programs that show no answer to a person (default: images)",
      ),
    "rouse keys create web",
    "rouse keys create shop --agents sales,support --rate 60/1m",
  ).action((id: string, options: CreateOptions) => create(id, options, io));
  reading(
    keys.command("list").description("keys and what they may do; never the keys themselves"),
    "rouse keys list",
  ).action((options: CommonOptions) => list(options, io));
  reading(
    keys
      .command("revoke <id>")
      .description("revoke a key: requests with it are rejected from now on"),
    "rouse keys revoke web",
  ).action((id: string, options: CommonOptions) => revoke(id, options, io));
}
