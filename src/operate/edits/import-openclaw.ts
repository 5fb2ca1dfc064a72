import { UNUSED_KEYS } from "../../mapping/compiled.ts";
import { CONTENT_FIELD } from "../../mapping/field-checks.ts";
import { parsePath, TEMPLATE_ROOTS } from "../../mapping/template-context.ts";
import { isRecord } from "../../core/json.ts";

/** The fate of one setting that does not mean the same: it means something else, or Rouse has nothing like it. */
export interface ImportNote {
  /** The path of the setting: `hooks.mappings[0].forEach`. */
  path: string;
  verdict: "differs" | "missing";
  text: string;
}

type Fields = Record<string, unknown>;
type Verdict = ImportNote["verdict"];
type Note = (path: string, verdict: Verdict, text: string) => void;

/** The fate of a setting, and the value that Rouse gets; none: it is not taken over. */
type Taken = readonly [Verdict, string, ((value: unknown) => unknown)?];

const same = (value: unknown): unknown => value;

/** The settings of `hooks` that mean the same. */
const SAME_SETTINGS = [
  "enabled",
  "path",
  "maxBodyBytes",
  "allowedAgentIds",
  "allowRequestSessionKey",
];

/** Further settings of `hooks` that are known. */
const SETTINGS: Readonly<Record<string, Taken>> = {
  allowedSessionKeyPrefixes: [
    "differs",
    "Rouse compares upper and lower case, OpenClaw does not",
    same,
  ],
  defaultSessionKey: [
    "differs",
    "in Rouse all runs with this key are one conversation with a history; leave it out to start each run without one",
    same,
  ],
  token: [
    "differs",
    "a secret is not copied: put it into the variable HOOK_TOKEN",
    () => "${HOOK_TOKEN}",
  ],
  presets: ["differs", "presets of these names are Rouse's own, with mappings of their own", same],
  transformsDir: [
    "differs",
    "copy the modules into hooks.transformsDir, which is `transforms` beside the config by default",
  ],
  internal: ["missing", "hooks inside the agent are not webhooks; Rouse has no counterpart"],
  sessionRetention: ["missing", "Rouse keeps sessions of hooks for store.retention.hookSessions"],
};

const NO_SETTING: Taken = [
  "missing",
  "hooks has no such setting; if a plugin has this name, `rouse webhooks --help` shows how it is set up",
];

/** Fields of a mapping that are taken over as they are. */
const PLAIN = [
  "action",
  "wakeMode",
  "agentId",
  "deliver",
  "channel",
  "timeoutSeconds",
  "allowUnsafeExternalContent",
];

const TEMPLATES = [
  "name",
  "sessionKey",
  "messageTemplate",
  "textTemplate",
  "to",
  "model",
  "thinking",
] as const;
const EXPRESSION = /\{\{\s*([^}]+?)\s*\}\}/g;
/** Translates an expression of a template: a path of OpenClaw. Undefined if it finds nothing there. */
function translateExpression(written: string, each: string | undefined): string | undefined {
  if (written === "path" || written === "now") return written;
  const steps = [...written.matchAll(/([^.[\]]+)|\[(\d+)\]/g)].map(
    ([, name, position]) => name ?? Number(position),
  );
  const [root, ...rest] = steps;
  if (root === undefined) return undefined;
  const isNamed = rest.length > 0 && (root === "headers" || root === "query" || root === "payload");
  const path = isNamed ? steps : ["payload", ...steps];
  // Of the list of forEach OpenClaw shows the current item only.
  if (path[0] === "payload" && path[1] === each && typeof path[2] === "number")
    return path[2] === 0 ? toPath(["item", ...path.slice(3)]) : undefined;
  const isField =
    path[0] === "payload" && typeof path[1] === "string" && !TEMPLATE_ROOTS.has(path[1]);
  return toPath(isField ? path.slice(1) : path);
}

/** Writes a path as an expression of Rouse: names that are no plain words are quoted, as JSONata has it. */
function toPath(steps: readonly (string | number)[]): string {
  const text = steps.reduce<string>(
    (at, step) =>
      typeof step === "number" ? `${at}[${step}]` : at === "" ? step : `${at}.${step}`,
    "",
  );
  if (parsePath(text)) return text;
  return steps.reduce<string>((at, step) => {
    const name =
      typeof step === "number" ? `[${step}]` : /^[A-Za-z_]\w*$/.test(step) ? step : `\`${step}\``;
    return typeof step === "number" || at === "" ? at + name : `${at}.${name}`;
  }, "");
}

/** Translates the fields of one mapping. */
class MappingTranslation {
  readonly made: Fields = {};
  readonly #written: Fields;
  readonly #at: string;
  readonly #note: Note;
  readonly #each: string | undefined;

  constructor(written: Fields, at: string, note: Note) {
    this.#written = written;
    this.#at = at;
    this.#note = note;
    this.#each = this.#forEach();
  }

  #tell(field: string, verdict: Verdict, text: string): void {
    this.#note(`${this.#at}.${field}`, verdict, text);
  }

  /** The name of the list that `forEach` goes through: `messages`, also written `payload.messages` or as an object. */
  #forEach(): string | undefined {
    const written = this.#written["forEach"];
    if (written === undefined) return undefined;
    const text = isRecord(written)
      ? (written["path"] ?? written["key"] ?? written["field"])
      : written;
    const name =
      typeof text === "string" ? /^(?:payload\.)?([^.[\]]+)$/.exec(text.trim())?.[1] : undefined;
    if (name !== undefined) return name;
    this.#tell(
      "forEach",
      "missing",
      "only the name of a list at the top of the body can be translated; write it as JSONata",
    );
    return undefined;
  }

  #template(field: (typeof TEMPLATES)[number]): void {
    const written = this.#written[field];
    if (typeof written !== "string") return;
    const lost: string[] = [];
    this.made[field] = written.replaceAll(EXPRESSION, (_all, expression: string) => {
      const translated = translateExpression(expression, this.#each);
      if (translated === undefined) lost.push(expression);
      return translated === undefined ? "" : `{{${translated}}}`;
    });
    if (lost.length > 0)
      this.#tell(
        field,
        "differs",
        `left out, since OpenClaw finds nothing either: ${lost.join(", ")}`,
      );
    else if (field === "sessionKey") this.#sessionKey(written);
    else if (written.includes("${"))
      this.#tell(field, "differs", "Rouse puts no variables of the environment into templates");
  }

  #sessionKey(written: string): void {
    const isShared = this.#written["sessionMode"] !== "persistent";
    const notes = [
      isShared
        ? 'runs with one key are ordered in both; in Rouse they also have a common history, which OpenClaw has only with sessionMode "persistent"'
        : [],
      written.includes("{{") ? "`:` in a value is encoded" : [],
    ].flat();
    if (notes.length > 0) this.#tell("sessionKey", "differs", notes.join("; "));
  }

  #match(): void {
    const { match } = this.#written;
    if (!isRecord(match)) return;
    const made: Fields = {};
    if (typeof match["path"] === "string")
      made["path"] = match["path"].trim().replaceAll(/^\/+|\/+$/g, "");
    if (typeof match["source"] === "string") made["source"] = match["source"].trim();
    for (const name of ["path", "source"]) if (made[name] === "") delete made[name];
    this.made["match"] = made;
    for (const name of Object.keys(match))
      if (name !== "path" && name !== "source")
        this.#tell(`match.${name}`, "missing", "this condition is not known; write it by hand");
  }

  #transform(): void {
    const { transform } = this.#written;
    if (!isRecord(transform)) return;
    const { module: file, export: name } = transform;
    this.made["transform"] = { module: file, ...(typeof name === "string" && { export: name }) };
    const each =
      this.#each === undefined
        ? ""
        : `; with forEach the module gets the whole body and the item as \`item\``;
    this.#tell(
      "transform",
      "differs",
      `copy the module into hooks.transformsDir. It gets no \`url\`, but \`query\`; headers that it reads have to be named in keepHeaders; without \`export\` the default export is used, not one named transform${each}`,
    );
  }

  /** Rouse refuses fields that say nothing to an action; without a transform they say nothing in OpenClaw either. */
  #dropUnused(action: "wake" | "agent"): void {
    if (this.made["transform"] !== undefined) return;
    for (const field of UNUSED_KEYS[action]) delete this.made[field];
    const content = CONTENT_FIELD[action];
    if (this.made[content] !== undefined) return;
    this.made["enabled"] = false;
    this.#tell(
      content,
      "differs",
      "is absent, so OpenClaw rejects every event; the mapping is imported with `enabled: false`",
    );
    this.made[content] = "-";
  }

  translate(id: string): Fields {
    const written = this.#written;
    this.made["id"] = id;
    this.#match();
    for (const field of PLAIN) if (written[field] !== undefined) this.made[field] = written[field];
    if (written["agentId"] !== undefined)
      this.#tell(
        "agentId",
        "differs",
        "OpenClaw uses its default agent if there is no such agent, Rouse rejects the event",
      );
    if (this.#each !== undefined) {
      this.made["forEach"] =
        `$type(payload.\`${this.#each}\`) = 'array' ? payload.\`${this.#each}\` : []`;
      this.#tell(
        "forEach",
        "differs",
        "OpenClaw drops items beyond the 200th; Rouse rejects events with more than hooks.maxActions (1,000)",
      );
    }
    for (const field of TEMPLATES) this.#template(field);
    this.#transform();
    if (written["action"] === "wake")
      this.#tell(
        "action",
        "differs",
        "Rouse marks the values in the text as text from outside, OpenClaw does not",
      );
    this.#dropUnused(written["action"] === "wake" ? "wake" : "agent");
    const known = ["id", "match", "forEach", "sessionMode", "transform", ...TEMPLATES, ...PLAIN];
    for (const field of Object.keys(written))
      if (!known.includes(field))
        this.#tell(field, "missing", "Rouse has no such setting of a mapping; it is left out");
    return this.made;
  }
}

/** The ids of all mappings: their own, or the ones that OpenClaw gives them, made of the letters that an id may have. */
function toIds(mappings: readonly Fields[]): string[] {
  const taken = new Set<string>();
  return mappings.map(({ id }, index) => {
    const own =
      typeof id === "string"
        ? id
            .trim()
            .replaceAll(/[^A-Za-z0-9._-]+/g, "-")
            .replace(/^[^A-Za-z0-9]+/, "")
            .slice(0, 56)
        : "";
    const name = own === "" ? `mapping-${index + 1}` : own;
    let unique = name;
    for (let n = 2; taken.has(unique); n++) unique = `${name}-${n}`;
    taken.add(unique);
    return unique;
  });
}

/** The section `hooks` of a config, or a file that holds this section alone; undefined if there is none. */
function findHooks(config: unknown): Fields | undefined {
  if (!isRecord(config)) return undefined;
  if (isRecord(config["hooks"])) return config["hooks"];
  return "mappings" in config || "presets" in config ? config : undefined;
}

/**
 * Translates the section `hooks` of an OpenClaw config (https://docs.openclaw.ai/gateway/config-hooks) into mappings and
 * settings of the section `hooks` of Rouse, and says which settings do not mean the same. Undefined if there is no such section.
 */
export function importOpenClaw(config: unknown) {
  const hooks = findHooks(config);
  if (!hooks || Object.keys(hooks).length === 0) return undefined;
  const notes: ImportNote[] = [];
  const note: Note = (path, verdict, text) => void notes.push({ path, verdict, text });
  const settings: Fields = {};
  for (const [name, value] of Object.entries(hooks)) {
    if (name === "mappings") continue;
    if (SAME_SETTINGS.includes(name)) {
      settings[name] = value;
      continue;
    }
    const [verdict, text, take] = SETTINGS[name] ?? NO_SETTING;
    note(`hooks.${name}`, verdict, text);
    if (take) settings[name] = take(value);
  }
  if (hooks["allowRequestSessionKey"] === undefined) {
    settings["allowRequestSessionKey"] = false;
    note(
      "hooks.allowRequestSessionKey",
      "differs",
      "OpenClaw allows no session keys of callers by default, Rouse does; it is written out",
    );
  }
  const written = Array.isArray(hooks["mappings"])
    ? hooks["mappings"].filter((entry) => isRecord(entry))
    : [];
  const ids = toIds(written);
  const mappings = written.map((mapping, index) => {
    const id = ids[index] ?? "";
    const at = `hooks.mappings[${index}]`;
    if (mapping["id"] !== undefined && mapping["id"] !== id)
      note(
        `${at}.id`,
        "differs",
        `written "${id}": an id has letters, digits, ".", "_" and "-", and is unique`,
      );
    return new MappingTranslation(mapping, at, note).translate(id);
  });
  return { mappings, settings, notes };
}
