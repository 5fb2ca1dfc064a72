import { z } from "zod";
import { didYouMean } from "../../config/suggest.ts";
import { isCredentialName } from "../../core/credential-name.ts";
import { parsePath } from "../../mapping/template-context.ts";
import type { ProposalJob } from "./job.ts";
import { toExpression, toTitle, type MappingParts, type Samples } from "./samples.ts";

const OPERATORS = [
  "equals",
  "notEquals",
  "exists",
  "missing",
  "contains",
  "startsWith",
  "endsWith",
  "greater",
  "atLeast",
  "less",
  "atMost",
] as const;
type Operator = (typeof OPERATORS)[number];

const conditionSchema = z.object({
  in: z.enum(["payload", "header"]),
  field: z.string().max(200).describe("A field of the list, or the name of a header."),
  operator: z
    .enum(OPERATORS)
    .describe("`equals` with several values holds for each of them, `notEquals` for none of them."),
  values: z.array(z.union([z.string().max(200), z.number(), z.boolean()])).max(20),
});

/**
 * All that a model can say about a mapping. Who may call, where replies go, which agent, model and code run, the path, and
 * the boundary are not in it: these are the operator's.
 */
export const answerSchema = z.object({
  takes: z
    .array(z.int())
    .max(20)
    .describe("The numbers of the shown events that the mapping must take."),
  conditions: z
    .array(conditionSchema)
    .max(12)
    .nullable()
    .describe("All must hold. Null: leave them as they are."),
  name: z
    .string()
    .max(120)
    .nullable()
    .describe("A short title of an event, with {{field}} for values."),
  sessionField: z
    .string()
    .max(200)
    .nullable()
    .describe("The field whose value is the same for events of one conversation. Null: none."),
  message: z
    .array(z.string().max(500))
    .max(40)
    .nullable()
    .describe("The lines that the agent gets, with {{field}} for values."),
});

type Answer = z.infer<typeof answerSchema>;

/** What an answer says. */
export interface ReadAnswer {
  parts: MappingParts;
  /** Numbers of events, from 1. */
  takes: number[];
  /** What the model has to change. */
  problems: string[];
  /** What was left out or replaced. */
  notes: string[];
}

/** Words of trusted text that a proposal may have whatever the operator and the fields say. */
const COMMON = new Set(
  `a about after all also an and any are as at be because been before being below between both but by can case cases
  change changed changes check close closed come comes came complete completed could create created customer date decide delete deleted
  describe description details did do does done due during each either end ended error event events every explain fail failed fails
  first five following for four from give given gives had has have help here how if important in information into is it item items its
  just kind last later list look message money more most name named names need needed needs new next no not note notes now number of
  off on once one only open opened opens or order orders other out over own paid part person please price priority problem product
  question read ready reason received reply report reported request requested resolved result say says send sender sends sent short
  should since so some sort start started state status steps still stop stopped subject such suggest summarise summarize summary
  team text than that the their them then there these they this those three ticket time title to today total two type until up
  update updated updates urgent use used user value wants was way were what when where which who whose why will with within without word words
  work would write yes yet you your`
    .split(/\s+/)
    .filter((word) => word !== ""),
);

const WORD = /[\p{L}\p{N}]+(?:['’][\p{L}]+)?/gu;
const PLAIN = /^[\p{L}\p{M}\p{N}\s.,:;!?'’"()/%+&–—-]*$/u;
const ENDING = /(?:['’]s|s|es|d|ed|ing)$/;

const listWords = (text: string): string[] =>
  (text.match(WORD) ?? []).map((word) => word.toLowerCase());

/** The words in names of fields, hooks and mappings: `pull_request.mergedBy` has four. One with digits may be data, and does not count. */
const splitNames = (names: readonly string[]): string[] =>
  names
    .flatMap((name) => listWords(name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll("_", " ")))
    .filter((word) => !/\d/.test(word));

/**
 * Collects the words that a proposal may use outside the boundary. What bodies say is not among them, so that no sentence
 * of a body can become one of the operator's.
 * @param said texts of the operator, with all their words.
 * @param names names of fields, hooks and mappings.
 */
function buildVocabulary(said: readonly string[], names: readonly string[]): Set<string> {
  return new Set([...COMMON, ...said.flatMap(listWords), ...splitNames(names)]);
}

/** Whether a text has only plain punctuation, and words of a vocabulary or forms of them. */
function isPlainText(text: string, vocabulary: ReadonlySet<string>): boolean {
  const isKnown = (word: string): boolean =>
    vocabulary.has(word) || (ENDING.test(word) && vocabulary.has(word.replace(ENDING, "")));
  return PLAIN.test(text) && listWords(text).every(isKnown);
}

const EXPRESSION = /\{\{(.*?)\}\}/gs;
const WRITTEN: Record<Exclude<Operator, "equals" | "notEquals" | "exists" | "missing">, string> = {
  contains: "$contains",
  startsWith: "$prefix",
  endsWith: "$suffix",
  greater: "$gt",
  atLeast: "$gte",
  less: "$lt",
  atMost: "$lte",
};
const PARTIAL: readonly Operator[] = ["contains", "startsWith", "endsWith"];

/** What a proposal may read and write of the mapping that it mends. */
export function pickParts({ fixed }: ProposalJob): Record<string, unknown> {
  const parts = ["match", "name", "sessionKey", "messageTemplate"];
  return Object.fromEntries(
    Object.entries(fixed?.value ?? {}).filter(([name]) => parts.includes(name)),
  );
}

/** A path without places in lists. */
const toPlainName = (name: string): string => name.replace(/\[(?:-?\d+)?\]/g, "");

/** Reads one answer against what is known of the events. */
class AnswerReader {
  readonly problems: string[] = [];
  readonly notes: string[] = [];
  readonly #job: ProposalJob;
  /** What of the mapping that is mended a proposal may read; the rest may hold secrets. */
  readonly #fixed: Record<string, unknown>;
  readonly #vocabulary: ReadonlySet<string>;
  /** By the name without places in lists. */
  readonly #fields: ReadonlyMap<string, Samples["fields"]>;

  constructor(job: ProposalJob) {
    const { name, say, samples } = job;
    this.#job = job;
    this.#fixed = pickParts(job);
    const written = Object.values(this.#fixed).flatMap((value) =>
      [value].flat().filter((one) => typeof one === "string"),
    );
    this.#vocabulary = buildVocabulary(
      [...(say === undefined ? [] : [say]), ...written],
      [...samples.fields.map((field) => field.name), name, samples.path],
    );
    this.#fields = Map.groupBy(samples.fields, (field) => toPlainName(field.name));
  }

  /** Returns the known field that a path means; undefined, with a problem, if there is none. */
  #findField(text: string, at: string): string | undefined {
    const steps = parsePath(text);
    const plain = toPlainName(text.trim()).replace(/^payload\.(?=.)/, "");
    const found =
      steps === undefined
        ? undefined
        : [toPlainName(text.trim()), plain].find((name) => this.#fields.has(name));
    if (found !== undefined) return found;
    const known = [...this.#fields.keys()];
    this.problems.push(
      `${at}: "${text}" is no field of the events; write a plain path of the list.${didYouMean(plain, known)}`,
    );
    return undefined;
  }

  /** The short values that the events have for a field or a header. */
  #listValues(place: "payload" | "header", field: string): unknown[] {
    const { samples } = this.#job.samples;
    if (place === "payload")
      return (this.#fields.get(field) ?? []).flatMap(({ values = [] }) => values);
    return samples
      .flatMap(({ input }) => input.headers[field] ?? [])
      .filter((value) => value.length <= 40);
  }

  /** Whether a value is the operator's, or one of the few short ones that the field has. A stand-in is no value of real events. */
  #isKnown(value: unknown, operator: Operator, seen: readonly unknown[]): boolean {
    const { say = "", samples } = this.#job;
    if (typeof value !== "string") return true;
    if (value === "" || samples.standIns.has(value)) return false;
    const isIn = (one: unknown): boolean =>
      one === value ||
      (PARTIAL.includes(operator) &&
        typeof one === "string" &&
        one.includes(value) &&
        !samples.standIns.has(one));
    const isWritten = JSON.stringify(this.#fixed["match"] ?? {}).includes(JSON.stringify(value));
    return seen.some(isIn) || isWritten || say.toLowerCase().includes(value.toLowerCase());
  }

  #readCondition(
    condition: NonNullable<Answer["conditions"]>[number],
    at: string,
  ): [field: string, value: unknown] | undefined {
    const { in: place, operator, values } = condition;
    const field =
      place === "header"
        ? condition.field.toLowerCase()
        : this.#findField(condition.field.replaceAll("[]", ""), `${at}.field`);
    if (field === undefined) return undefined;
    if (
      place === "header" &&
      !this.#job.samples.samples.some(({ input }) => Object.hasOwn(input.headers, field))
    ) {
      this.problems.push(`${at}.field: no event has the header "${field}"`);
      return undefined;
    }
    if (operator === "exists" || operator === "missing")
      return [field, { $exists: operator === "exists" }];
    const seen = this.#listValues(place, field);
    const unknown = values.find((value) => !this.#isKnown(value, operator, seen));
    if (values.length === 0 || unknown !== undefined) {
      const what =
        values.length === 0
          ? "needs a value"
          : `${JSON.stringify(unknown)} is neither a short value of this field nor in the operator's words`;
      this.problems.push(`${at}.values: ${what}`);
      return undefined;
    }
    const [first] = values;
    if (operator === "equals") return [field, values.length === 1 ? first : values];
    if (operator === "notEquals")
      return [field, values.length === 1 ? { $ne: first } : { $nin: values }];
    const each = values.map((value) => ({ [WRITTEN[operator]]: value }));
    return [field, each.length === 1 ? each[0] : { $or: each }];
  }

  readConditions(
    conditions: NonNullable<Answer["conditions"]>,
  ): Pick<MappingParts, "payload" | "headers"> {
    const read = { payload: new Map<string, unknown[]>(), header: new Map<string, unknown[]>() };
    for (const [index, condition] of conditions.entries()) {
      const [field, value] = this.#readCondition(condition, `conditions[${index}]`) ?? [];
      if (field === undefined) continue;
      const same = read[condition.in];
      same.set(field, [...(same.get(field) ?? []), value]);
    }
    const join = (all: ReadonlyMap<string, unknown[]>): Record<string, unknown> =>
      Object.fromEntries(
        [...all].map(([field, values]) => [
          field,
          values.length === 1 ? values[0] : { $and: values },
        ]),
      );
    return {
      payload: join(read.payload),
      ...(read.header.size > 0 && { headers: join(read.header) }),
    };
  }

  /** A template whose own words come from the operator or from names; undefined if nothing of it is left. */
  readTemplate(text: string, at: string): string | undefined {
    const fields: string[] = [];
    const written = text.replace(EXPRESSION, (_all, expression: string) => {
      const field = this.#findField(expression, at);
      if (field === undefined) return "";
      if (isCredentialName(field)) {
        this.problems.push(`${at}: "${field}" may hold a credential; leave it out`);
        return "";
      }
      const path = toExpression(expression.trim());
      fields.push(path);
      return `{{${path}}}`;
    });
    const words = text.replace(EXPRESSION, " ");
    if (isPlainText(words, this.#vocabulary)) return written;
    this.notes.push(
      `${at}: its words were replaced, since neither you nor the names of fields have them`,
    );
    return fields.length === 0
      ? undefined
      : fields.map((path) => `${path.replace(/^payload\./, "")}: {{${path}}}`).join(", ");
  }

  readSessionField(text: string): string | undefined {
    const field = this.#findField(text, "sessionField");
    return field === undefined
      ? undefined
      : `hook:${this.#job.name}:{{${toExpression(text.trim())}}}`;
  }
}

/** Reads what a model has answered as JSON; a string says what is wrong with it. */
function parseAnswer(text: string): { answer: Answer; unknown: string[] } | string {
  const json = /^\s*```(?:json)?\s*([^]*?)\s*```\s*$/.exec(text)?.[1] ?? text;
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    return "the answer is not JSON";
  }
  const checked = answerSchema.safeParse(value);
  if (!checked.success)
    return checked.error.issues
      .map(({ path, message }) => `${path.join(".") || "the answer"}: ${message}`)
      .join("; ");
  const known = Object.keys(answerSchema.shape);
  return {
    answer: checked.data,
    unknown: Object.keys(value as object).filter((name) => !known.includes(name)),
  };
}

/**
 * Makes parts of a mapping of what a model has answered. Members that the schema does not have are left out; a condition
 * compares only with values that the field has, or that the operator has named; and words of the model that are neither the
 * operator's nor names of fields are replaced, so that nothing that a body says stands outside the boundary.
 */
export function readAnswer(text: string, job: ProposalJob): ReadAnswer {
  const parsed = parseAnswer(text);
  if (typeof parsed === "string") return { parts: {}, takes: [], problems: [parsed], notes: [] };
  const { answer, unknown } = parsed;
  const reader = new AnswerReader(job);
  const { conditions, name, sessionField, message, takes } = answer;
  if (unknown.length > 0)
    reader.notes.push(
      `the model's answer also had ${unknown.map((one) => JSON.stringify(one.slice(0, 40))).join(", ")}, which it cannot set`,
    );
  const isNew = job.fixed === undefined;
  const lines =
    message?.flatMap((line, index) => reader.readTemplate(line, `message[${index}]`) ?? []) ?? [];
  if (isNew && lines.every((line) => line.trim() === ""))
    reader.problems.push("message: write at least one line");
  const title = name === null ? undefined : reader.readTemplate(name, "name");
  const sessionKey = sessionField === null ? undefined : reader.readSessionField(sessionField);
  const parts: MappingParts = {
    ...(conditions !== null && reader.readConditions(conditions)),
    ...(title !== undefined && title.trim() !== ""
      ? { name: title }
      : isNew
        ? { name: toTitle(job.name) }
        : {}),
    ...(sessionKey !== undefined && { sessionKey }),
    ...(lines.length > 0 && { messageTemplate: lines }),
  };
  return { parts, takes, problems: reader.problems, notes: reader.notes };
}
