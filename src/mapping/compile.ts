import { readFileSync } from "node:fs";
import { THINKING_LEVELS } from "../config/schema/common.ts";
import type { MappingConfig } from "../config/schema/mapping.ts";
import { didYouMean } from "../config/suggest.ts";
import { createHostList } from "../core/address.ts";
import type { Issue } from "../core/errors.ts";
import { isCredentialName } from "../core/credential-name.ts";
import { fileInside } from "../core/files.ts";
import { callbackKey } from "../core/secret.ts";
import { TEMPLATE_FIELDS, USELESS, type CompiledMapping } from "./compiled.ts";
import { compileExpression, type JsonataRunner } from "./expression.ts";
import { compileMatch } from "./match.ts";
import { compilePaths } from "./paths.ts";
import type { TransformPool } from "./pool.ts";
import { createMappingSet } from "./run.ts";
import { parsePath, type Path } from "./path.ts";
import { namesUsed } from "./headers.ts";
import { joinLines } from "./lines.ts";
import type { Source } from "./source.ts";
import { sessionKeyIssues } from "./session-keys.ts";
import { collectSources, type SourceOptions } from "./sources.ts";
import { compileTemplate, type Template, type TemplateOptions } from "./template.ts";
import { compileTransform } from "./transform.ts";
import { checkPlaces, createPermissions, type SecretPlace, type TransformPermissions } from "./transform-permissions.ts";
import type { MappingSet, MappingSettings } from "./types.ts";
import { compileValidator, type Validator } from "./validate.ts";

export interface CompileOptions extends SourceOptions {
  transformsDir: string;
  secretPlaces: readonly SecretPlace[];
  /** What is loaded: agents, channels (and `last`), models that a mapping may name. */
  known: {
    agents: ReadonlySet<string>;
    channels: (name: string) => boolean;
    model: (name: string) => { ok: true } | { ok: false; message: string };
    /** Why replies can have no route; `to` is null if it is known only with the event. */
    routeProblem: (target: { channel: string; to?: string | null }) => { field: string; message: string } | undefined;
  };
  pool: TransformPool;
}

/** The field that says what an action is about. */
const CONTENT_FIELD = { wake: "textTemplate", agent: "messageTemplate" } as const;

class MappingCompiler {
  readonly issues: Issue[] = [];
  readonly warnings: Issue[] = [];
  readonly files: string[] = [];
  readonly #options: CompileOptions;
  readonly #permissions: TransformPermissions;

  constructor(options: CompileOptions) {
    this.#options = options;
    this.#permissions = createPermissions(options.transformsDir, options.hooks.transformPermissions);
  }

  #problem(source: Source, field: string, message: string, detail?: string): void {
    const at = source.options?.fields.includes(field) ? source.options.at : source.at;
    this.issues.push({ path: `${at}.${field}`, message, ...(detail === undefined ? {} : { detail }) });
  }

  #compileTemplate(source: Source, field: string, text: string, options: TemplateOptions): Template | undefined {
    const compiled = compileTemplate(text, { ...options, field });
    if (compiled.ok) return compiled.template;
    this.#problem(source, field, compiled.message, compiled.detail);
    return undefined;
  }

  #template(source: Source, field: keyof MappingConfig, options: TemplateOptions): Template | undefined {
    const text = source.config[field];
    return typeof text === "string" ? this.#compileTemplate(source, field, text, options) : undefined;
  }

  /** The message of an agent action or the text of a wake: one template, or a list of lines. */
  #content(source: Source, options: TemplateOptions): Template | undefined {
    const { action, strict } = source.config;
    const field = CONTENT_FIELD[action];
    const content = source.config[field];
    if (typeof content !== "object") return this.#template(source, field, options);
    const lines = content.flatMap((line, index) => this.#compileTemplate(source, `${field}[${index}]`, line, options) ?? []);
    return joinLines(lines, { strict });
  }

  /** A field that holds no expression is checked now against what is loaded. */
  #checkStatic(source: Source, field: (typeof TEMPLATE_FIELDS)[number], text: string): void {
    const { known, hooks } = this.#options;
    if (field === "agentId") {
      if (!known.agents.has(text)) this.#problem(source, field, `names no agent.${didYouMean(text, known.agents)}`);
      else if (hooks.allowedAgentIds && !hooks.allowedAgentIds.includes(text))
        this.#problem(source, field, "is not in hooks.allowedAgentIds");
    } else if (field === "channel" && !known.channels(text))
      this.#problem(source, field, "names no channel; use `last` or one that is loaded");
    else if (field === "model") {
      const model = known.model(text);
      if (!model.ok) this.#problem(source, field, model.message);
    } else if (field === "thinking" && !(THINKING_LEVELS as readonly string[]).includes(text))
      this.#problem(source, field, `use one of ${THINKING_LEVELS.join(", ")}`);
  }

  #validator(source: Source): Validator | undefined {
    const { validate } = source.config;
    if (validate === undefined) return undefined;
    let schema: unknown = validate;
    if (typeof validate === "string") {
      const found = fileInside(source.folder, validate);
      if (!found.ok) {
        this.#problem(source, "validate", found.message);
        return undefined;
      }
      this.files.push(found.file);
      try {
        schema = JSON.parse(readFileSync(found.file, "utf8"));
      } catch {
        this.#problem(source, "validate", "the file is not valid JSON");
        return undefined;
      }
    }
    const compiled = compileValidator(schema as Record<string, unknown>);
    if (compiled.ok) return compiled.validate;
    this.#problem(source, "validate", compiled.message);
    return undefined;
  }

  #checkUse(source: Source): void {
    const { config } = source;
    const field = CONTENT_FIELD[config.action];
    if (config[field] === undefined && config.transform === undefined)
      this.#problem(source, field, `is required for action "${config.action}", unless a transform makes it`);
    if (config.coalesce && config.forEach !== undefined)
      this.#problem(source, "coalesce", "cannot stand beside `forEach`: collect the events, or make one action for each item");
    if (config.methods?.includes("GET") && config.dedupeKey === undefined)
      this.#problem(source, "dedupeKey", "is required where `methods` has GET");
    if (config.transform !== undefined) return;
    for (const useless of USELESS[config.action])
      if (config[useless] !== undefined) this.#problem(source, useless, `has no effect for action "${config.action}"`);
  }

  /** A transform may set the channel, the recipient and whether there is a delivery at all. */
  #checkRoute({ config, at }: Source, fields: CompiledMapping["fields"]): void {
    if (config.action !== "agent" || config.deliver === false || config.shadow || config.transform !== undefined) return;
    const [channel, to] = (["channel", "to"] as const).map((name) => fields.find(({ field }) => field === name)?.template);
    if (channel?.literal === false) return;
    const target = { channel: channel?.source.trim() ?? "last", ...(to && { to: to.literal ? to.source : null }) };
    const problem = this.#options.known.routeProblem(target);
    if (problem) this.warnings.push({ path: `${at}.${problem.field}`, message: problem.message });
  }

  compile(source: Source, order: number): CompiledMapping {
    const { config, at } = source;
    const { pool, hooks, transformsDir } = this.#options;
    const permissions = this.#permissions;
    const loadMs = hooks.transformLoadSeconds * 1000;
    const timeoutMs = hooks.transformTimeoutSeconds * 1000;
    const runner: JsonataRunner = (text, input, now) => pool.runExpression({ owner: config.id, source: text, input, now, timeoutMs });
    this.#checkUse(source);
    for (const field of ["keepHeaders", "keepQuery"] as const)
      for (const [index, name] of config[field].entries())
        if (isCredentialName(name)) this.#problem(source, `${field}[${index}]`, "may carry a credential: such a value is never kept");
    const matched = compileMatch(config.match, { path: `${at}.match`, runner });
    this.issues.push(...matched.issues);
    const fields: { field: (typeof TEMPLATE_FIELDS)[number]; template: Template }[] = [];
    for (const field of TEMPLATE_FIELDS) {
      const template = this.#template(source, field, { runner, encodeColon: field === "sessionKey" });
      if (!template) continue;
      fields.push({ field, template });
      if (template.literal) this.#checkStatic(source, field, template.source);
    }
    this.#checkRoute(source, fields);
    const made: { -readonly [K in keyof CompiledMapping]: CompiledMapping[K] } = {
      config,
      info: {
        id: config.id,
        origin: source.origin,
        enabled: config.enabled,
        paths: [config.match.path ?? []].flat(),
        action: config.action,
        at,
        ...namesUsed(config),
        unsafe: config.allowUnsafeExternalContent,
      },
      at,
      match: matched.match,
      fields,
      settings: this.#settings(source),
      order,
    };
    const content = this.#content(source, { runner });
    if (content) made.content = content;
    const event = this.#template(source, "event", { runner });
    if (event) made.event = event;
    if (source.events) made.events = source.events;
    const self = this.#self(source);
    if (self) made.self = self;
    if (config.coalesce) {
      const key = this.#compileTemplate(source, "coalesce.key", config.coalesce.key, { runner });
      if (key) made.coalesceKey = key;
    }
    const dedupeKey = this.#template(source, "dedupeKey", { runner });
    if (dedupeKey) made.dedupeKey = dedupeKey;
    const validate = this.#validator(source);
    if (validate) made.validate = validate;
    if (config.forEach !== undefined) {
      const compiled = compileExpression(config.forEach, { runner, field: "forEach" });
      if (compiled.ok) made.forEach = compiled.expression;
      else this.#problem(source, "forEach", compiled.message, compiled.detail);
    }
    if (config.transform) {
      const compiled = compileTransform(config.transform, { id: config.id, transformsDir, permissions, loadMs, timeoutMs, pool });
      if (compiled.ok) made.transform = compiled.transform;
      else this.#problem(source, `transform.${compiled.field}`, compiled.message, compiled.detail);
    }
    return made;
  }

  /** How the agent's own events are known; undefined where the operator has named no account and no marker. */
  #self(source: Source): CompiledMapping["self"] {
    const { ignoreSelf } = source.config;
    if (!ignoreSelf || (ignoreSelf.accounts.length === 0 && ignoreSelf.marker === undefined)) return undefined;
    const paths = (field: "from" | "text"): Path[] =>
      ignoreSelf[field].flatMap((text, index) => {
        const path = parsePath(text);
        if (path) return [path];
        this.#problem(source, `ignoreSelf.${field}[${index}]`, "must be a plain path such as `sender.login`");
        return [];
      });
    const self = { from: paths("from"), text: paths("text"), marker: ignoreSelf.marker };
    if (ignoreSelf.accounts.length > 0 && self.from.length === 0)
      this.#problem(source, "ignoreSelf.from", "is required with `accounts`: where the event names who caused it");
    if (self.marker !== undefined && self.text.length === 0)
      this.#problem(source, "ignoreSelf.text", "is required with `marker`: where the event has text that may carry it");
    return { ...self, accounts: new Set(ignoreSelf.accounts.map((account) => account.toLowerCase())) };
  }

  #settings(source: Source): MappingSettings {
    const { id, limits, callback } = source.config;
    const settings: MappingSettings = {};
    if (source.budget) settings.budget = source.budget;
    if (limits) settings.budget = { scope: `mapping:${id}`, limits };
    if (!callback) return settings;
    if (!createHostList(this.#options.hooks.callbackHosts).allows(new URL(callback.url).hostname))
      this.#problem(source, "callback.url", "goes to a host that is not in hooks.callbackHosts");
    if (callbackKey(callback.secret) === undefined)
      this.#problem(source, "callback.secret", "must be base64 of at least 24 bytes, such as `openssl rand -base64 32` gives");
    return { ...settings, callback };
  }

  /** No module runs in a folder that cannot be kept apart from the config and the state. */
  async checkModules(mappings: readonly CompiledMapping[]): Promise<void> {
    const withModules = mappings.filter((mapping) => mapping.transform?.check);
    if (withModules.length > 0) {
      const { issues, warnings } = checkPlaces(this.#permissions, this.#options.secretPlaces);
      this.issues.push(...issues);
      this.warnings.push(...warnings);
      if (issues.length > 0) return;
    }
    for (const { transform } of withModules) this.files.push(...((await transform?.files?.()) ?? []));
    const found = await Promise.all(mappings.map((mapping) => mapping.transform?.check?.()));
    for (const [index, problem] of found.entries())
      if (problem !== undefined) this.issues.push({ path: `${mappings[index]?.at}.transform.module`, ...problem });
  }
}

/** Compiles all mappings of a snapshot, and loads their modules once, in a child. All problems come back at once; with any, the set must not be used. */
export async function compileMappings(options: CompileOptions): Promise<{ set: MappingSet; issues: Issue[]; warnings: Issue[] }> {
  const { hooks } = options;
  const collected = collectSources(options);
  const compiler = new MappingCompiler(options);
  const paths = compilePaths(collected.sources, hooks.maxBodyBytes);
  const seen = new Map<string, string>();
  for (const { config, at } of collected.sources) {
    const before = seen.get(config.id);
    if (before !== undefined) compiler.issues.push({ path: `${at}.id`, message: `"${config.id}" is the id of ${before} too` });
    seen.set(config.id, at);
  }
  const mappings = collected.sources.map((source, order) => compiler.compile(source, order));
  await compiler.checkModules(mappings);
  const set = createMappingSet({
    mappings,
    rules: paths.rules,
    files: [...collected.files, ...compiler.files],
    maxActions: hooks.maxActions,
  });
  const keyIssues = sessionKeyIssues(mappings, hooks.allowedSessionKeyPrefixes);
  return { set, issues: [...collected.issues, ...paths.issues, ...compiler.issues, ...keyIssues], warnings: compiler.warnings };
}
