import { setImmediate } from "node:timers/promises";
import type { Issue } from "../core/errors.ts";
import { createPause } from "../core/pause.ts";
import { TEMPLATE_FIELDS, type CompiledMapping } from "./compiled.ts";
import { compileExpression, type JsonataRunner } from "./jsonata/expression.ts";
import {
  checkLiteral,
  checkUse,
  compileSettings,
  CONTENT_FIELD,
  type Known,
  namesUsed,
  sessionKeyIssues,
} from "./field-checks.ts";
import { compileMatch, compileSelf } from "./match.ts";
import { compilePaths } from "./route-rules.ts";
import { createMappingSet } from "./run.ts";
import { joinLines, compileTemplate, type Template, type TemplateOptions } from "./template.ts";
import type { MappingSource } from "./source.ts";
import { collectSources, type SourceOptions } from "./sources.ts";
import { createPermissions } from "./transforms/permissions.ts";
import {
  checkModules,
  compileTransform,
  type TransformCompileOptions,
} from "./transforms/transform.ts";
import type { MappingSet } from "./types.ts";
import { compileValidate, type Validator } from "./validate.ts";

export interface MappingOptions
  extends
    SourceOptions,
    Pick<
      TransformCompileOptions,
      "transformsDir" | "pluginTransforms" | "secretPlaces" | "moduleHashes" | "pool"
    > {
  known: Known;
}

class MappingCompiler {
  readonly issues: Issue[] = [];
  readonly warnings: Issue[] = [];
  /** Files of JSON Schemas. */
  readonly schemas: string[] = [];
  readonly transforms: Omit<TransformCompileOptions, "id" | "runner">;
  readonly #options: MappingOptions;

  constructor(options: MappingOptions) {
    const { hooks } = options;
    this.#options = options;
    this.transforms = {
      ...options,
      permissions: createPermissions(options.transformsDir, hooks.transformPermissions),
      loadMs: hooks.transformLoadSeconds * 1000,
      timeoutMs: hooks.transformTimeoutSeconds * 1000,
    };
  }

  #problem(
    source: MappingSource,
    field: string,
    { message, detail, offset }: Pick<Issue, "message" | "detail" | "offset">,
  ): undefined {
    const at = source.options?.fields.includes(field) ? source.options.at : source.at;
    this.issues.push({
      path: `${at}.${field}`,
      message,
      ...(detail !== undefined && { detail }),
      ...(offset !== undefined && { offset }),
    });
    return undefined;
  }

  /** Adds issues whose paths are those in the mapping. */
  #add(source: MappingSource, issues: readonly Issue[]): void {
    for (const issue of issues) this.#problem(source, issue.path, issue);
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
    field: keyof MappingSource["config"],
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
    const compiled = compileValidate(validate, source.folder, this.#options.texts);
    if (compiled.file !== undefined) this.schemas.push(compiled.file);
    return compiled.ok ? compiled.validate : this.#problem(source, "validate", compiled);
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
    const { pool, timeoutMs } = this.transforms;
    const runner: JsonataRunner = (text, input, now) =>
      pool.runExpression({ owner: config.id, source: text, input, now, timeoutMs });
    const { match, issues } = compileMatch(config.match, { runner });
    const self = compileSelf(config.ignoreSelf, issues);
    issues.push(...checkUse(config));
    const settings = compileSettings(source, this.#options, issues);
    this.#add(source, issues);
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
      match,
      fields,
      settings,
      order,
      content: this.#content(source, { runner, shortens: true }),
      event: this.#template(source, "event", { runner }),
      events: source.events,
      self,
      coalesceKey:
        coalesce && this.#compileTemplate(source, "coalesce.key", coalesce.key, { runner }),
      dedupeKey: this.#template(source, "dedupeKey", { runner }),
      validate: this.#validator(source),
      forEach: this.#forEach(source, runner),
      transform: this.#transform(source, runner),
    };
  }

  #forEach(source: MappingSource, runner: JsonataRunner): CompiledMapping["forEach"] {
    const { forEach } = source.config;
    if (forEach === undefined) return undefined;
    const compiled = compileExpression(forEach, { runner, field: "forEach" });
    return compiled.ok ? compiled.expression : this.#problem(source, "forEach", compiled);
  }

  #transform(source: MappingSource, runner: JsonataRunner): CompiledMapping["transform"] {
    const { id, transform } = source.config;
    if (!transform) return undefined;
    const compiled = compileTransform(transform, { ...this.transforms, id, runner });
    return compiled.ok
      ? compiled.transform
      : this.#problem(source, `transform.${compiled.field}`, compiled);
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
  const { permissions, secretPlaces } = compiler.transforms;
  const checked = await checkModules(mappings, permissions, secretPlaces);
  const set = createMappingSet({
    mappings,
    rules: paths.rules,
    files: [
      ...collected.files,
      ...collected.secretFiles,
      ...compiler.schemas,
      ...[...checked.modules.values()].flat(),
    ],
    documents: [...collected.files, ...compiler.schemas],
    modules: checked.modules,
    maxActions: hooks.maxActions,
  });
  const keyIssues = sessionKeyIssues(mappings, hooks.allowedSessionKeyPrefixes);
  return {
    set,
    issues: [
      ...collected.issues,
      ...paths.issues,
      ...compiler.issues,
      ...checked.issues,
      ...keyIssues,
    ],
    warnings: [...compiler.warnings, ...checked.warnings],
  };
}
