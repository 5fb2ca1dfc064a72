import type { z } from "zod";
import type { Scope } from "../../chat/api-keys.ts";
import { answers, failures, type Operation } from "../openapi/operation.ts";
import { apiErrorAnswer } from "./answer-schemas.ts";
import type { ApiRoute } from "./types.ts";

/** Failures of the platform API by status, each with its reason. */
export const problems = <S extends string>(reasons: Record<S, string>) => failures(apiErrorAnswer, reasons);

/** What the published document says of a route beside its success. */
type Details = Partial<Operation> & {
  /** What a 200 means. Default: the summary. */
  ok?: string;
};

/**
 * Defines a route that answers with JSON.
 * @param id the operation's id in the published document
 */
export function defineRoute(
  scope: Scope | undefined,
  handle: ApiRoute["handle"],
  [id, summary, answered]: readonly [id: string, summary: string, answered: z.ZodType],
  { ok = summary, responses, ...details }: Details = {},
): ApiRoute {
  return { scope, handle, doc: { operationId: id, summary, ...details, responses: { "200": answers(ok, answered), ...responses } } };
}
