import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCli } from "../cli/world.ts";
import { TOKEN } from "../e2e/world.ts";
import { createGoogle, type FakeGoogle } from "./google.ts";

export interface Said {
  code: number;
  out: string;
  err: string;
}

/** A folder with a config and credentials, and Google on this machine. */
export interface GmailWorld {
  google: FakeGoogle;
  dir: string;
  /** Runs a command. `onUrl` is what the person does with the address that is shown; by default the browser opens it. */
  rouse(args: string[], onUrl?: (url: string) => Promise<unknown>): Promise<Said>;
  config(): string;
  file(name: string): string;
  read(name: string): string;
  state(): Record<string, unknown> & { delivered: string[]; refused: { id: string }[] };
  setup(more?: string[]): Promise<Said>;
  close(): Promise<void>;
}

/** Opens an address as a browser does: with every redirect. */
export const open = (url: string): Promise<Response> => fetch(url);

export const SETUP = ["webhooks", "gmail", "setup", "--account", "ann@example.com"];

export async function createGmailWorld({
  config = {},
  hooks = {},
}: { config?: object; hooks?: object } = {}): Promise<GmailWorld> {
  const google = await createGoogle();
  const cli = await createCli();
  const { dir } = cli;
  const file = (name: string): string => join(dir, name);
  writeFileSync(file("installed.json"), JSON.stringify(google.installed));
  writeFileSync(file("service.json"), JSON.stringify(google.serviceAccount));
  writeFileSync(
    file("rouse.json5"),
    `// mine
{
  gateway: { port: 0, drainSeconds: 1 }, // any port
  hooks: {
    enabled: true,
    token: "${TOKEN}", // the hook token
    /* presets in use */
    presets: ["healthchecks"],
    gmail: { endpoints: ${JSON.stringify(google.endpoints)}, ...{} },
  },
}
`
      .replace(
        ", ...{}",
        Object.keys(config).length > 0 ? `, ${JSON.stringify(config).slice(1, -1)}` : "",
      )
      .replace('    presets: ["healthchecks"],', (line) =>
        Object.keys(hooks).length > 0
          ? `${line}\n    ${JSON.stringify(hooks).slice(1, -1)},`
          : line,
      ),
  );
  const world: GmailWorld = {
    google,
    dir,
    file,
    async rouse(args, onUrl = open) {
      let opened: Promise<unknown> | undefined;
      const said = await cli.rouse(args, {
        onErr(err) {
          const url = /^(http\S+)$/m.exec(err)?.[1];
          if (url !== undefined) opened ??= onUrl(url);
        },
      });
      await opened;
      return said;
    },
    read: (name) => readFileSync(file(name), "utf8"),
    config: () => readFileSync(file("rouse.json5"), "utf8"),
    state: () =>
      JSON.parse(readFileSync(file(".rouse/plugins/gmail/watch.json"), "utf8")) as ReturnType<
        GmailWorld["state"]
      >,
    setup: (more = []) => world.rouse([...SETUP, "--credentials", file("installed.json"), ...more]),
    async close() {
      await google.close();
      await cli.close();
    },
  };
  return world;
}
