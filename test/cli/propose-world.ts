import { mkdir, readFile, readdir } from "node:fs/promises";
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { stateSecret } from "../../src/config/state.ts";
import { BOT_TOKEN, startSlack, type SlackServer } from "../channels/slack-server.ts";
import { createGateway, type StartedGateway } from "../gateway.ts";
import { startModel, type Model } from "../platform/model.ts";
import { createCli, TOKEN, type CliWorld } from "./world.ts";

/** The answer of a model about a mapping. */
export const ANSWER = {
  takes: [1],
  conditions: [{ in: "payload", field: "type", operator: "$eq", values: ["ticket.opened"] }],
  sessionField: "ticket.id",
  fields: ["ticket.subject", "ticket.priority"],
};

export const TICKET = {
  type: "ticket.opened",
  ticket: { id: 7, subject: "The shop is down", priority: "P1" },
  customer: { email: "ann.smith@shop.test", name: "Ann" },
};

interface MappingFile {
  mappings: (Record<string, unknown> & {
    id: string;
    match: { path?: string; payload?: Record<string, unknown> };
    messageTemplate?: string[];
  })[];
}

export interface ProposeWorld {
  cli: CliWorld;
  model: Model;
  slack: SlackServer;
  gateway: StartedGateway;
  /** The model's answers to proposals, in order; the last one repeats. */
  answers: unknown[];
  /** Posts bodies, and returns the ids of their events. */
  post(path: string, ...bodies: unknown[]): Promise<string[]>;
  /** Runs the command; `args` may have spaces. */
  propose(command: string, ...args: string[]): ReturnType<CliWorld["rouse"]>;
  /** Sends a request to the admin API. */
  admin(
    path: string,
    body: unknown,
    options?: { token?: string; signal?: AbortSignal },
  ): Promise<Response>;
  /** The mapping file that a proposal wrote. */
  readWritten(name: string): Promise<MappingFile>;
  hasWritten(name: string): boolean;
  listFixtures(path: string): Promise<string[]>;
  countRuns(mapping?: string): Promise<number>;
  /** Makes all of it as if it were new, with these mappings. */
  renew(mappings: readonly object[]): Promise<void>;
  close(): Promise<void>;
}

/** A gateway with workers, a model server and a vendor's channel, and commands that talk to it. */
export async function createProposeWorld(): Promise<ProposeWorld> {
  const [cli, model, slack] = [await createCli(), await startModel(), await startSlack()];
  const writeConfig = (mappings: readonly object[]): Promise<string> =>
    cli.write("rouse.json5", {
      gateway: { port: 0 },
      hooks: { enabled: true, token: TOKEN, summary: "quiet", mappings },
      models: {
        providers: {
          local: {
            type: "openai-compatible",
            baseUrl: model.url,
            apiKey: "provider-key-0123456789",
          },
        },
        prices: { "local/big": { input: 1, output: 4 } },
      },
      agents: {
        defaults: { model: "local/big", heartbeat: { every: 0 } },
        list: [{ id: "main" }, { id: "ops" }],
      },
      channels: { slack: { botToken: BOT_TOKEN, apiUrl: slack.url } },
    });
  await writeConfig([]);
  const gateway = await createGateway({ cwd: cli.dir, env: {}, workers: true });
  const { adminUrl } = await gateway.start();
  const answers: unknown[] = [ANSWER];
  let asked = 0;
  const says: Model["says"] = ({ body }) => {
    if ((body as { response_format?: unknown }).response_format === undefined)
      return { text: ["On it."] };
    const answer = answers[Math.min(asked++, answers.length - 1)];
    return { text: [typeof answer === "string" ? answer : JSON.stringify(answer)] };
  };
  model.reset(says);
  const headers = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };
  return {
    cli,
    model,
    slack,
    gateway,
    answers,
    async post(path, ...bodies) {
      const ids: string[] = [];
      for (const body of bodies) {
        const sent = typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body);
        const answer = await gateway.fetch(
          new Request(`http://127.0.0.1/hooks/${path}`, { method: "POST", headers, body: sent }),
        );
        ids.push(answer.headers.get("x-request-id") ?? "");
      }
      return ids;
    },
    propose: (command, ...args) => cli.rouse(["propose", ...command.split(" "), ...args]),
    admin: async (path, body, { token, signal } = {}) =>
      fetch(`${adminUrl}/admin/v1${path}`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${token ?? (await stateSecret(join(cli.dir, ".rouse"), "gateway-token"))}`,
          "content-type": "application/json",
        },
        body: JSON.stringify(body),
        ...(signal && { signal }),
      }),
    async readWritten(name) {
      const text = await readFile(join(cli.dir, `mappings/${name}.json`), "utf8");
      return JSON.parse(text) as MappingFile;
    },
    hasWritten: (name) => existsSync(join(cli.dir, `mappings/${name}.json`)),
    async listFixtures(path) {
      const folder = join(cli.dir, "tests", path);
      await mkdir(folder, { recursive: true });
      return (await readdir(folder)).toSorted();
    },
    async countRuns(mapping) {
      const { out } = await cli.rouse("runs --json");
      const { runs } = JSON.parse(out) as { runs: { mapping: string | null }[] };
      return runs.filter((run) => mapping === undefined || run.mapping === mapping).length;
    },
    async renew(mappings) {
      for (const folder of ["mappings", "tests"])
        rmSync(join(cli.dir, folder), { recursive: true, force: true });
      const db = new DatabaseSync(join(cli.dir, ".rouse", "rouse.db"));
      db.exec("DELETE FROM events; DELETE FROM runs");
      db.close();
      await writeConfig(mappings);
      const reloaded = await gateway.reload();
      if (!reloaded.ok) throw new Error("the config has problems");
      answers.splice(0, answers.length, ANSWER);
      asked = 0;
      model.reset(says);
      slack.posts.length = 0;
    },
    async close() {
      await gateway.stop();
      await Promise.all([model.close(), slack.close()]);
      await cli.close();
    },
  };
}
