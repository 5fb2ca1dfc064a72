import { z } from "zod";
import { didYouMean } from "../../config/suggest.ts";
import { isCredentialName } from "../../core/http/credential-name.ts";
import { parsePath } from "../../mapping/template-context.ts";
import type { ReadAnswer } from "../ask-model.ts";
import type { ProposalJob } from "./job.ts";
import {
  draftFromShape,
  renderLine,
  toExpression,
  type MappingParts,
  type Samples,
} from "./samples.ts";

const OPERATORS = [
  "$eq",
  "$ne",
  "$exists",
  "$contains",
  "$prefix",
  "$suffix",
  "$gt",
  "$gte",
  "$lt",
  "$lte",
] as const;
type Operator = (typeof OPERATORS)[number];

const conditionSchema = z.object({
  in: z.enum(["payload", "header"]),
  field: z.string().max(200).describe("A field of the list, or the name of a header."),
  operator: z
    .enum(OPERATORS)
    .describe(
      "`$eq` holds for each of several values, `$ne` for none of them; `$exists` takes true or false.",
    ),
  values: z.array(z.union([z.string().max(200), z.number(), z.boolean()])).max(20),
});

/**
 * All that a model can say about a mapping. Who may call, where replies go, which agent, model and code run, the path, the
 * boundary, and words are not in it: these are the operator's.
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
    .describe("All must hold. Null: the gateway chooses them."),
  sessionField: z
    .string()
    .max(200)
    .nullable()
    .describe("The field whose value is the same for events of one conversation. Null: none."),
  fields: z
    .array(z.string().max(200))
    .max(20)
    .describe("The fields that the agent reads, the most telling first."),
});

type Answer = z.infer<typeof answerSchema>;

/** The parts of a mapping that an answer names. */
interface AnsweredParts {
  parts: MappingParts;
  /** Numbers of events, from 1. */
  takes: number[];
  /** Changes that the model has to make. */
  problems: string[];
  /** Members that were left out. */
  notes: string[];
}

const PARTIAL: readonly Operator[] = ["$contains", "$prefix", "$suffix"];

/** A path without places in lists. */
const toPlainName = (name: string): string => name.replace(/\[(?:-?\d+)?\]/g, "");

/** Reads one answer against what is known of the events. */
class AnswerReader {
  readonly problems: string[] = [];
  readonly #job: ProposalJob;
  /** By the name without places in lists. */
  readonly #fields: ReadonlyMap<string, Samples["fields"]>;

  constructor(job: ProposalJob) {
    this.#job = job;
    this.#fields = Map.groupBy(job.samples.fields, (field) => toPlainName(field.name));
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

  /** True if a value is the operator's, or one of the few short ones that the field has. A stand-in is no value of real events. */
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
    return seen.some(isIn) || say.toLowerCase().includes(value.toLowerCase());
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
    if (operator === "$exists") return [field, { $exists: values[0] !== false }];
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
    if (operator === "$eq") return [field, values.length === 1 ? first : values];
    if (operator === "$ne") return [field, values.length === 1 ? { $ne: first } : { $nin: values }];
    const each = values.map((value) => ({ [operator]: value }));
    return [field, each.length === 1 ? each[0] : { $or: each }];
  }

  readConditions(
    conditions: NonNullable<Answer["conditions"]>,
  ): Pick<MappingParts, "payload" | "headers"> {
    const read = conditions.flatMap((condition, index) => {
      const [field, value] = this.#readCondition(condition, `conditions[${index}]`) ?? [];
      return field === undefined ? [] : [{ place: condition.in, field, value }];
    });
    const collect = (place: "payload" | "header"): Record<string, unknown> => {
      const own = read.filter((one) => one.place === place);
      const byField = [...Map.groupBy(own, ({ field }) => field)];
      return Object.fromEntries(
        byField.map(([field, same]) => {
          const values = same.map(({ value }) => value);
          return [field, values.length === 1 ? values[0] : { $and: values }];
        }),
      );
    };
    const headers = collect("header");
    return {
      payload: collect("payload"),
      ...(Object.keys(headers).length > 0 && { headers }),
    };
  }

  /** Returns a field as a template reads it; undefined, with a problem, if it must not. */
  #readField(text: string, at: string): string | undefined {
    const field = this.#findField(text, at);
    if (field !== undefined && !isCredentialName(field)) return toExpression(text.trim());
    if (field !== undefined)
      this.problems.push(`${at}: "${field}" may hold a credential; leave it out`);
    return undefined;
  }

  /** The lines of a message that show fields. */
  readFields(names: readonly string[]): string[] {
    return names.flatMap((name, index) => {
      const path = this.#readField(name, `fields[${index}]`);
      return path === undefined ? [] : renderLine(path);
    });
  }

  readSessionField(text: string): string | undefined {
    const path = this.#readField(text, "sessionField");
    return path === undefined ? undefined : `hook:${this.#job.name}:{{${path}}}`;
  }
}

/**
 * Makes parts of a mapping of what a model has answered, on top of the draft of a new one. Members that the schema does not have
 * are left out; a condition compares only with values that the field has, or that the operator has named. No text of the model
 * becomes one of the mapping, so that nothing that a body says stands outside the boundary.
 */
export function readMappingParts(read: ReadAnswer<Answer>, job: ProposalJob): AnsweredParts {
  if (!read.ok) return { parts: {}, takes: [], problems: [read.problem], notes: [] };
  const { conditions, sessionField, fields, takes } = read.value;
  const unknown = Object.keys(read.written as object).filter(
    (name) => !Object.hasOwn(answerSchema.shape, name),
  );
  const shown = unknown.map((name) => JSON.stringify(name.slice(0, 40))).join(", ");
  const notes =
    unknown.length === 0 ? [] : [`the model's answer also had ${shown}, which it cannot set`];
  const reader = new AnswerReader(job);
  const sessionKey = sessionField === null ? undefined : reader.readSessionField(sessionField);
  const decided: MappingParts = {
    ...(conditions !== null && reader.readConditions(conditions)),
    ...(sessionKey !== undefined && { sessionKey }),
  };
  const { problems } = reader;
  const { sessionKey: _drafted, messageTemplate = [], ...draft } = draftFromShape(job);
  const lines = reader.readFields(fields);
  const texts = lines.length === 0 ? messageTemplate : [...messageTemplate.slice(0, 1), ...lines];
  return { parts: { ...draft, ...decided, messageTemplate: texts }, takes, problems, notes };
}
