import { resolve } from "node:path";
import type { Command, CommandContext } from "#plugin";
import { askForConsent, createClients, readCredentials, type Credentials } from "./auth.ts";
import { getLabels, gmailConfig, withPaths, type GmailConfig } from "./config.ts";
import { createGoogle, GoogleError, type Google } from "./google.ts";
import { GmailProblem } from "./problem.ts";
import { createMailbox, labelIds } from "./mailbox.ts";
import { getPubSubNames } from "./pubsub.ts";
import { letGmailPublish, makeSubscription, makeTopic } from "./resources.ts";
import { readGrant, readState, writeGrant, writeState } from "./state.ts";

type Options = Record<string, string | true | undefined>;
type Context = CommandContext<GmailConfig>;

/** Options that are written to the config under the same name. */
const FIELDS = [
  "account",
  "credentials",
  "project",
  "topic",
  "subscription",
  "label",
  "pushEndpoint",
  "pushAccount",
] as const;

/** Tells of a step that was done. */
type Tell = (step: string, result: string) => void;

/** The config with the options in it, checked as the section is. */
function wanted(
  context: Context,
  options: Options,
): { config: GmailConfig & { account: string }; given: Partial<Record<string, string>> } {
  const given: Partial<Record<string, string>> = {};
  for (const field of FIELDS) if (typeof options[field] === "string") given[field] = options[field];
  if (given["credentials"] !== undefined) given["credentials"] = resolve(given["credentials"]);
  if (context.config?.labels && given["label"] !== undefined)
    throw new GmailProblem("hooks.gmail.labels is set and counts before --label: change it there");
  const checked = gmailConfig.safeParse({ ...context.config, ...given });
  if (!checked.success) {
    const [issue] = checked.error.issues;
    throw new GmailProblem(`${issue?.path.join(".")}: ${issue?.message}`);
  }
  const { account } = checked.data;
  if (account === undefined) throw new GmailProblem("which mailbox? Name it with --account");
  return { config: withPaths({ ...checked.data, account }, context.baseDir), given };
}

async function readProfile(google: Google, signal: AbortSignal): Promise<string> {
  return (
    await google.gmail<{ emailAddress: string }>("profile", { what: "reading the profile", signal })
  ).emailAddress;
}

/** Sees to it that calls are allowed: with the grant that is there, or with a new one. */
async function connect(
  context: Context,
  config: GmailConfig & { account: string },
  credentials: Credentials,
  tell: Tell,
): Promise<Google> {
  const dir = await context.stateDir();
  const connectWith = async () => {
    const google = createGoogle(
      config,
      await createClients(config, credentials, { dir, fetch: context.fetch }),
    );
    return { google, address: await readProfile(google, context.signal) };
  };
  if (credentials.kind === "service") {
    const { google } = await connectWith();
    tell("grant", `the service account ${credentials.email} acts for ${config.account}`);
    return google;
  }
  const kept = await readGrant(dir);
  if (kept?.account === config.account && kept.clientId === credentials.clientId) {
    try {
      const { google } = await connectWith();
      tell("grant", "the one that is there works");
      return google;
    } catch (error) {
      if (!(error instanceof GoogleError && error.kind === "revoked")) throw error;
    }
  }
  const show = (url: string): void =>
    context.err(
      `Open this address in a browser on this machine and allow both scopes:\n\n${url}\n\n`,
    );
  const grant = await askForConsent(config, credentials, {
    show,
    signal: context.signal,
    fetch: context.fetch,
  });
  await writeGrant(dir, grant);
  const { google, address } = await connectWith();
  if (address.toLowerCase() !== config.account.toLowerCase()) {
    await writeGrant(dir, { ...grant, account: address });
    throw new GmailProblem(
      `consent was given for ${address}, not for ${config.account}: run the setup again and choose that account`,
    );
  }
  tell("grant", `given by ${config.account} and kept`);
  return google;
}

/** The presets with this one among them; undefined where it is there. */
function withPreset(presets: unknown): unknown[] | undefined {
  const list: unknown[] = Array.isArray(presets) ? presets : [];
  const there = list.some(
    (entry) => entry === "gmail" || (entry as { use?: unknown } | null)?.use === "gmail",
  );
  return there ? undefined : [...list, "gmail"];
}

async function writeConfig(
  context: Context,
  project: string,
  given: Partial<Record<string, string>>,
): Promise<string> {
  const { hooks = {} } = (await context.writtenConfig()) as {
    hooks?: { presets?: unknown; gmail?: Record<string, unknown> };
  };
  const fields = { project, ...given };
  const changes = Object.entries(fields).map(([name, value]) => ({
    path: ["hooks", "gmail", name],
    value: value as unknown,
  }));
  const presets = withPreset(hooks.presets);
  return context.editConfig(
    presets ? [...changes, { path: ["hooks", "presets"], value: presets }] : changes,
  );
}

async function setup(
  context: Context,
  options: Options,
  tell: Tell,
): Promise<Record<string, unknown>> {
  const { config, given } = wanted(context, options);
  const { signal } = context;
  // Fails at once where there is no file to write to.
  await context.editConfig([]);
  const credentials = await readCredentials(config.credentials);
  const names = getPubSubNames(config, credentials.project);
  if (config.pushEndpoint !== undefined && config.pushAccount === undefined) {
    if (credentials.kind !== "service")
      throw new GmailProblem(
        "pushes need a service account that signs them: name its address with --push-account",
      );
    config.pushAccount = given["pushAccount"] = credentials.email;
  }
  const google = await connect(context, config, credentials, tell);
  const labels = await labelIds(config, google, signal);
  tell("topic", `${names.topic} ${await makeTopic(google, names, signal)}`);
  tell("permission", await letGmailPublish(google, names, signal));
  tell(
    "subscription",
    `${names.subscription} ${await makeSubscription(google, names, config, signal)}`,
  );
  const { historyId, expires } = await createMailbox(config, google, labels, signal).watch(
    names.topic,
  );
  tell("watch", `on ${labels.join(", ")} until ${new Date(expires).toISOString()}`);
  const dir = await context.stateDir();
  const state = await readState(dir, config.account);
  const now = context.clock.now();
  if (state.historyId === undefined)
    Object.assign(state, { historyId, startedAt: now, lastSync: now, aliveAt: now });
  const watched = `${names.topic} ${getLabels(config).join(" ")}`;
  Object.assign(state, { watchExpires: expires, watchedAt: now, watched });
  delete state.lastError;
  await writeState(dir, state);
  const file = await writeConfig(context, names.project, given);
  tell("config", `hooks.gmail and the preset are in ${file}`);
  return {
    account: config.account,
    ...names,
    mode: config.pushEndpoint === undefined ? "pull" : "push",
    watchExpires: new Date(expires).toISOString(),
    historyId: state.historyId,
    config: file,
  };
}

/** `rouse webhooks gmail setup`. */
export const setupCommand: Command<GmailConfig> = {
  summary: "connect a mailbox: consent, Pub/Sub topic and subscription, watch, config",
  options: {
    account: { describe: "the mailbox", value: "address" },
    credentials: {
      describe:
        "JSON file from Google Cloud: an OAuth client for a desktop app, or a service account's key",
      value: "file",
    },
    project: { describe: "the Google Cloud project; default the credentials' own", value: "id" },
    topic: { describe: "name of the Pub/Sub topic (default rouse-gmail)", value: "name" },
    subscription: {
      describe: "name of the Pub/Sub subscription (default rouse-gmail)",
      value: "name",
    },
    label: { describe: "the label whose new mail counts (default INBOX)", value: "label" },
    pushEndpoint: {
      describe: "public address of /channels/gmail/push; without it Rouse pulls",
      value: "url",
    },
    pushAccount: { describe: "the service account that signs pushes", value: "address" },
  },
  async run(context, options) {
    const steps: { step: string; result: string }[] = [];
    const { json, out, fail } = context;
    const tell: Tell = (step, result) => {
      steps.push({ step, result });
      if (!json) out(`${step}: ${result}\n`);
    };
    try {
      const result = await setup(context, options, tell);
      if (json) out(`${JSON.stringify({ ok: true, ...result, steps })}\n`);
      else out("done: new mail becomes runs while the gateway runs\n");
      return 0;
    } catch (error) {
      if (!(error instanceof GmailProblem)) throw error;
      if (!json) return fail(error.message);
      out(`${JSON.stringify({ ok: false, message: error.message, steps })}\n`);
      return 1;
    }
  },
};
