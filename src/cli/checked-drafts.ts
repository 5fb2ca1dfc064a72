import { withSnapshot } from "../gateway/snapshot.ts";
import { loadConfig, type LoadedConfig } from "../config/load.ts";
import { RouseError, type Issue } from "../core/errors.ts";
import { planDraft, readDrafts, type Draft, type DraftPlan } from "../workbench/drafts.ts";
import { SYSTEM, type CliIo } from "./io.ts";
import type { CommonOptions } from "./options.ts";
import { configInvalid } from "./settings.ts";

/** A draft with what is wrong with it. */
export interface CheckedDraft {
  draft: Draft;
  /** What it would do to the live files; undefined if it cannot land as it is. */
  plan: DraftPlan | undefined;
  problems: Issue[];
}

/**
 * Loads the config as commands about drafts need it: without secrets, and also with problems.
 * @throws RouseError `config_invalid` if too little of the config can be read.
 */
export async function loadForDrafts(options: CommonOptions, io: CliIo): Promise<LoadedConfig> {
  const { cwd, env } = io;
  const loaded = await loadConfig({
    cwd,
    env,
    withoutSecrets: true,
    ...(options.config === undefined ? {} : { file: options.config }),
  });
  const usable = loaded.ok ? loaded : loaded.rest;
  if (!usable) throw configInvalid(loaded as Extract<typeof loaded, { ok: false }>);
  return usable;
}

/** The places of the user's mappings. */
export const toPlaces = ({ file, config }: LoadedConfig) => ({
  mappingsDir: config.hooks.mappingsDir,
  configFile: file,
});

/** How commands build a snapshot of a config without its secrets. */
export const toFiles = ({ file }: LoadedConfig, { cwd, env }: CliIo) => ({
  ...SYSTEM,
  cwd,
  env,
  ...(file === undefined ? {} : { configFile: file }),
  withoutSecrets: true,
});

const inDraft =
  (draft: Draft, plan: DraftPlan) =>
  (issue: Issue): Issue =>
    issue.file === plan.file && plan.replaces.length === 0 ? { ...issue, file: draft.file } : issue;

async function checkDraftFile(
  draft: Draft,
  loaded: LoadedConfig,
  io: CliIo,
): Promise<CheckedDraft> {
  try {
    const plan = planDraft(draft, toPlaces(loaded));
    const texts = new Map([[plan.file, plan.after]]);
    const issues = await withSnapshot({ ...toFiles(loaded, io), texts }, (result) =>
      result.ok ? [] : result.issues,
    );
    const named =
      draft.problem !== undefined && issues.length === 0
        ? [{ path: "", file: draft.file, message: draft.problem }]
        : issues;
    return { draft, plan, problems: named.map(inDraft(draft, plan)) };
  } catch (error) {
    if (!(error instanceof RouseError)) throw error;
    return {
      draft,
      plan: undefined,
      problems: [{ path: "", file: draft.file, message: error.message }],
    };
  }
}

/** Checks each draft as a part of the whole config. If the config itself has problems, these are each draft's too. */
export async function checkDrafts(loaded: LoadedConfig, io: CliIo): Promise<CheckedDraft[]> {
  const checked: CheckedDraft[] = [];
  for (const draft of readDrafts(loaded.config.hooks.mappingsDir))
    checked.push(await checkDraftFile(draft, loaded, io));
  return checked;
}

/** What is wrong with the drafts of a config, as warnings: a draft keeps no gateway from starting. */
export async function getDraftWarnings(options: CommonOptions, io: CliIo): Promise<Issue[]> {
  const checked = await checkDrafts(await loadForDrafts(options, io), io);
  return checked.flatMap(({ draft, plan, problems }): Issue[] => {
    const landed = {
      path: "",
      file: draft.file,
      message: `this draft has landed: \`rouse drafts drop ${draft.name}\` removes it`,
    };
    const found = problems.map((issue) => ({
      ...issue,
      message: `in the draft ${draft.name}: ${issue.message}`,
    }));
    return plan?.landed ? [...found, landed] : found;
  });
}
