import { z } from "zod";

export const UNSUPPORTED = "unsupported_parameter";

/**
 * A field of the official API that Rouse does not have. A value that asks for nothing passes; any other is refused with
 * `instead`, which says what to do.
 */
export const unsupported = (
  instead: string,
  asksForNothing: (value: unknown) => boolean = () => false,
) =>
  z
    .unknown()
    .refine((value) => value === null || value === undefined || asksForNothing(value), {
      message: `this field is not supported: ${instead}`,
      params: { code: UNSUPPORTED },
    })
    .optional()
    .describe("Not supported.");

export const isFalse = (value: unknown): boolean => value === false;
export const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
