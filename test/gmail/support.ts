import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCli } from "../cli/world.ts";
import { TOKEN } from "../e2e/world.ts";
import { createGoogle } from "./google.ts";

export type GmailWorld = Awaited<ReturnType<typeof createGmailWorld>>;

/** Opens an address as a browser does: with every redirect. */
export const open = (url: string): Promise<Response> => fetch(url);

export const SETUP = ["webhooks", "gmail", "setup", "--account", "ann@example.com"];

/** A folder with a config and credentials, and Google on this machine. */
export async function createGmailWorld() {
  const google = await createGoogle();
  const cli = await createCli();
  const { dir } = cli;
  const file = (name: string): string => join(dir, name);
  const read = (name: string): string => readFileSync(file(name), "utf8");
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
    gmail: { endpoints: ${JSON.stringify(google.endpoints)} },
  },
}
`,
  );
  /** Runs a command. `onUrl` is what the person does with the address that is shown; by default the browser opens it. */
  const rouse = async (
    args: string[],
    onUrl: (url: string) => Promise<unknown> = open,
  ): Promise<{ code: number; out: string; err: string }> => {
    let opened: Promise<unknown> | undefined;
    const said = await cli.rouse(args, {
      onErr(err) {
        const url = /^(http\S+)$/m.exec(err)?.[1];
        if (url !== undefined) opened ??= onUrl(url);
      },
    });
    await opened;
    return said;
  };
  return {
    google,
    dir,
    file,
    rouse,
    read,
    config: () => read("rouse.json5"),
    state: () =>
      JSON.parse(read(".rouse/plugins/gmail/watch.json")) as Record<string, unknown> & {
        delivered: string[];
        refused: { id: string }[];
      },
    setup: (more: string[] = []) =>
      rouse([...SETUP, "--credentials", file("installed.json"), ...more]),
    async close(): Promise<void> {
      await google.close();
      await cli.close();
    },
  };
}
