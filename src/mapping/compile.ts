import { setImmediate } from "node:timers/promises";
import type { MappingConfig } from "../config/schema/mapping.ts";
import { createHostList } from "../core/http/address.ts";
import type { Issue } from "../core/errors.ts";
import { fileInside, readText } from "../core/files.ts";
import { createPause } from "../core/pause.ts";
import { parseJson, roundNumbers } from "../core/json.ts";
import { callbackKey } from "../core/secret.ts";
import { TEMPLATE_FIELDS, type CompiledMapping } from "./compiled.ts";
import { compileExpression, type Expression, type JsonataRunner } from "./jsonata/expression.ts";
import {
  checkLiteral,
  checkUse,
  CONTENT_FIELD,
  type FieldProblem,
  type Known,
  namesUsed,
  sessionKeyIssues,
} from "./field-checks.ts";
import { compileMatch } from "./match.ts";
import { compilePaths } from "./route-rules.ts";
import type { TransformPool } from "./transforms/pool.ts";
import { createMappingSet } from "./run.ts";
import { parsePath, type Path } from "./template-context.ts";
import { joinLines, compileTemplate, type Template, type TemplateOptions } from "./template.ts";
import type { MappingSource } from "./source.ts";
import { collectSources, type SourceOptions } from "./sources.ts";
import { compileTransform } from "./transforms/transform.ts";
import {
  checkPlaces,
  createPermissions,
  type SecretPlace,
  type TransformPermissions,
} from "./transforms/permissions.ts";
import type { MappingSet, MappingSettings } from "./types.ts";
import { compileValidator, type Validator } from "./validate.ts";

export interface MappingOptions extends SourceOptions {
  transformsDir: string;
  /** Transform modules of plugins: absolute files by `<plugin>/<name>`. Default: none. */
  pluginTransforms?: ReadonlyMap<string, string>;
  secretPlaces: readonly SecretPlace[];
  /** The hashes that modules had, by their names: one that differs is not run. Undefined: each is run as it is. */
  moduleHashes?: ReadonlyMap<string, string> | undefined;
  known: Known;
  pool: TransformPool;
}

class MappingCompiler {
  readonly issues: Issue[] = [];
  readonly warnings: Issue[] = [];
  readonly files: string[] = [];
  /** Files of JSON Schemas. */
  readonly schemas: string[] = [];
  /** The files of each transform module, by its name. */
  readonly modules = new Map<string, readonly string[]>();
  readonly #options: MappingOptions;
  readonly #permissions: TransformPermissions;

  constructor(options: MappingOptions) {
    this.#options = options;
    this.#permissions = createPermissions(
      options.transformsDir,
      options.hooks.transformPermissions,
    );
  }

  #problem(
    source: MappingSource,
    field: string,
    problem: string | Pick<Issue, "message" | "detail" | "offset">,
  ): undefined {
    const at = source.options?.fields.includes(field) ? source.options.at : source.at;
    const { message, detail, offset }: Pick<Issue, "message" | "detail" | "offset"> =
      typeof problem === "string" ? { message: problem } : problem;
    this.issues.push({
      path: `${at}.${field}`,
      message,
      ...(detail !== undefined && { detail }),
      ...(offset !== undefined && { offset }),
    });
    return undefined;
  }

  #add(source: MappingSource, problems: readonly FieldProblem[]): void {
    for (const { field, message } of problems) this.#problem(source, field, message);
  }

  #compileTemplate(
    source: MappingSource,
    field: string,
    text: string,
    options: TemplateOptions,
  ): Template | undefined {
    const compiled = compileTemplate(text, { ...options, field });
    return compiled.ok ? compiled.template : this.#problem(source, field, compiled);
  }

  #template(
    source: MappingSource,
    field: keyof MappingConfig,
    options: TemplateOptions,
  ): Template | undefined {
    const text = source.config[field];
    return typeof text === "string"
      ? this.#compileTemplate(source, field, text, options)
      : undefined;
  }

  /** The message of an agent action or the text of a wake: one template, or a list of lines. */
  #content(source: MappingSource, options: TemplateOptions): Template | undefined {
    const { action, strict } = source.config;
    const field = CONTENT_FIELD[action];
    const content = source.config[field];
    if (typeof content !== "object") return this.#template(source, field, options);
    const lines = content.flatMap(
      (line, index) => this.#compileTemplate(source, `${field}[${index}]`, line, options) ?? [],
    );
    return joinLines(lines, { strict });
  }

  #validator(source: MappingSource): Validator | undefined {
    const { validate } = source.config;
    if (validate === undefined) return undefined;
    let schema: unknown = validate;
    if (typeof validate === "string") {
      const found = fileInside(source.folder, validate);
      if (!found.ok) return this.#problem(source, "validate", found.message);
      this.files.push(found.file);
      this.schemas.push(found.file);
      try {
        schema = roundNumbers(parseJson(readText(found.file, this.#options.texts)));
      } catch {
        return this.#problem(source, "validate", "the file is not valid JSON");
      }
    }
    const compiled = compileValidator(schema as Record<string, unknown>);
    return compiled.ok ? compiled.validate : this.#problem(source, "validate", compiled.message);
  }

  /** A transform may set the channel, the recipient and whether there is a delivery at all. */
  #checkRoute({ config, at }: MappingSource, fields: CompiledMapping["fields"]): void {
    if (
      config.action !== "agent" ||
      config.deliver === false ||
      config.shadow ||
      config.transform !== undefined
    )
      return;
    const [channel, to] = (["channel", "to"] as const).map(
      (name) => fields.find(({ field }) => field === name)?.template,
    );
    if (channel?.literal === false) return;
    const target = {
      channel: channel?.source.trim() ?? "last",
      ...(to && { to: to.literal ? to.source : null }),
    };
    const problem = this.#options.known.routeProblem(target);
    if (problem) this.warnings.push({ path: `${at}.${problem.field}`, message: problem.message });
  }

  compile(source: MappingSource, order: number): CompiledMapping {
    const { config, at } = source;
    const { pool, hooks } = this.#options;
    const timeoutMs = hooks.transformTimeoutSeconds * 1000;
    const runner: JsonataRunner = (text, input, now) =>
      pool.runExpression({ owner: config.id, source: text, input, now, timeoutMs });
    this.#add(source, checkUse(config));
    const matched = compileMatch(config.match, { runner });
    for (const issue of matched.issues) this.issues.push({ ...issue, path: `${at}.${issue.path}` });
    const fields: { field: (typeof TEMPLATE_FIELDS)[number]; template: Template }[] = [];
    for (const field of TEMPLATE_FIELDS) {
      const template = this.#template(source, field, {
        runner,
        encodeColon: field === "sessionKey",
        shortens: field === "name",
      });
      if (!template) continue;
      fields.push({ field, template });
      if (template.literal) this.#add(source, checkLiteral(field, template.source, this.#options));
    }
    this.#checkRoute(source, fields);
    const { coalesce } = config;
    return {
      config,
      written: this.#write(source),
      info: {
        id: config.id,
        origin: source.origin,
        enabled: config.enabled,
        paths: [config.match.path ?? []].flat(),
        action: config.action,
        at,
        ...namesUsed(config),
        shadow: config.shadow,
        unsafe: config.allowUnsafeExternalContent,
      },
      at,
      match: matched.match,
      fields,
      settings: this.#settings(source),
      order,
      content: this.#content(source, { runner, shortens: true }),
      event: this.#template(source, "event", { runner }),
      events: source.events,
      self: this.#self(source),
      coalesceKey:
        coalesce && this.#compileTemplate(source, "coalesce.key", coalesce.key, { runner }),
      dedupeKey: this.#template(source, "dedupeKey", { runner }),
      validate: this.#validator(source),
      forEach: this.#forEach(source, runner),
      transform: this.#transform(source),
    };
  }

  #forEach(source: MappingSource, runner: JsonataRunner): Expression | undefined {
    const { forEach } = source.config;
    if (forEach === undefined) return undefined;
    const compiled = compileExpression(forEach, { runner, field: "forEach" });
    return compiled.ok ? compiled.expression : this.#problem(source, "forEach", compiled);
  }

  /** Writes all of a mapping as text. Of a file the folder is enough: two snapshots of one process read the same disk. */
  #write({ config, events, folder }: MappingSource): string {
    const { transformsDir } = this.#options;
    return JSON.stringify([
      config,
      events,
      typeof config.validate === "string" ? folder : null,
      config.transform === undefined ? null : transformsDir,
    ]);
  }

  #transform(source: MappingSource): CompiledMapping["transform"] {
    const { id, transform } = source.config;
    if (!transform) return undefined;
    const {
      pool,
      hooks,
      transformsDir,
      pluginTransforms = new Map<string, string>(),
      secretPlaces,
      moduleHashes,
    } = this.#options;
    const compiled = compileTransform(transform, {
      id,
      moduleHashes,
      transformsDir,
      permissions: this.#permissions,
      pluginTransforms,
      secretPlaces,
      loadMs: hooks.transformLoadSeconds * 1000,
      timeoutMs: hooks.transformTimeoutSeconds * 1000,
      pool,
    });
    return compiled.ok
      ? compiled.transform
      : this.#problem(source, `transform.${compiled.field}`, compiled);
  }

  /**
   * Compiles the rules that recognize the agent's own events; undefined if the operator has named no account and no
   * marker.
   */
  #self(source: MappingSource): CompiledMapping["self"] {
    const { ignoreSelf } = source.config;
    if (!ignoreSelf || (ignoreSelf.accounts.length === 0 && ignoreSelf.marker === undefined))
      return undefined;
    const paths = (field: "from" | "text"): Path[] =>
      ignoreSelf[field].flatMap((text, index) => {
        const path = parsePath(text);
        if (path) return [path];
        this.#problem(
          source,
          `ignoreSelf.${field}[${index}]`,
          "must be a plain path such as `sender.login`",
        );
        return [];
      });
    const self = { from: paths("from"), text: paths("text"), marker: ignoreSelf.marker };
    if (ignoreSelf.accounts.length > 0 && self.from.length === 0)
      this.#problem(
        source,
        "ignoreSelf.from",
        "is required with `accounts`: where the event names who caused it",
      );
    if (self.marker !== undefined && self.text.length === 0)
      this.#problem(
        source,
        "ignoreSelf.text",
        "is required with `marker`: where the event has text that may carry it",
      );
    return {
      ...self,
      accounts: new Set(ignoreSelf.accounts.map((account) => account.toLowerCase())),
    };
  }

  #settings(source: MappingSource): MappingSettings {
    const { id, limits, callback, tools, approve } = source.config;
    const settings: MappingSettings = {};
    for (const [field, patterns] of Object.entries({ tools, approve }) as [
      "tools" | "approve",
      string[] | undefined,
    ][]) {
      if (!patterns) continue;
      settings[field] = patterns;
      for (const { path, message } of this.#options.known.toolProblems?.(field, patterns) ?? [])
        this.#problem(source, path, message);
    }
    // The operator decides what a hook may do: the file of a preset comes from other people.
    if (tools && source.origin.startsWith("preset:") && !source.options?.fields.includes("tools"))
      this.#problem(
        source,
        "tools",
        "the file of a preset names no tools: set `tools` where hooks.presets uses it, or hooks.tools",
      );
    if (source.budget) settings.budget = source.budget;
    if (limits) settings.budget = { scope: `mapping:${id}`, limits };
    if (!callback) return settings;
    if (!createHostList(this.#options.hooks.callbackHosts).allows(new URL(callback.url).hostname))
      this.#problem(source, "callback.url", "goes to a host that is not in hooks.callbackHosts");
    if (callbackKey(callback.secret) === undefined)
      this.#problem(
        source,
        "callback.secret",
        "must be base64 of at least 24 bytes, such as `openssl rand -base64 32` gives",
      );
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
    for (const { transform, config } of withModules) {
      const files = (await transform?.files?.()) ?? [];
      this.files.push(...files);
      if (config.transform && "module" in config.transform)
        this.modules.set(config.transform.module, files);
    }
    const found = await Promise.all(mappings.map((mapping) => mapping.transform?.check?.()));
    for (const [index, problem] of found.entries())
      if (problem !== undefined)
        this.issues.push({ path: `${mappings[index]?.at}.transform.module`, ...problem });
  }
}

/** Compiles all mappings of a snapshot, and loads their modules once, in a child process. Reports all problems together; if there are any, the set must not be used. */
export async function compileMappings(
  options: MappingOptions,
): Promise<{ set: MappingSet; issues: Issue[]; warnings: Issue[] }> {
  const { hooks } = options;
  // A thousand mappings take a third of a second. Hooks are answered meanwhile, and after the config was read.
  await setImmediate();
  const pause = createPause();
  const collected = await collectSources(options, pause);
  const compiler = new MappingCompiler(options);
  const paths = compilePaths(collected.sources);
  const seen = new Map<string, string>();
  for (const { config, at } of collected.sources) {
    const before = seen.get(config.id);
    if (before !== undefined)
      compiler.issues.push({
        path: `${at}.id`,
        message: `"${config.id}" is the id of ${before} too`,
      });
    seen.set(config.id, at);
  }
  const mappings: CompiledMapping[] = [];
  for (const source of collected.sources) {
    mappings.push(compiler.compile(source, mappings.length));
    await pause();
  }
  await compiler.checkModules(mappings);
  const set = createMappingSet({
    mappings,
    rules: paths.rules,
    files: [...collected.files, ...collected.secretFiles, ...compiler.files],
    documents: [...collected.files, ...compiler.schemas],
    modules: compiler.modules,
    maxActions: hooks.maxActions,
  });
  const keyIssues = sessionKeyIssues(mappings, hooks.allowedSessionKeyPrefixes);
  return {
    set,
    issues: [...collected.issues, ...paths.issues, ...compiler.issues, ...keyIssues],
    warnings: compiler.warnings,
  };
}
