import { z } from "zod";

/** A package whose version and content are fixed, as `rouse plugins add` writes it. */
export const pinnedPackageSchema = z.strictObject({
  package: z.string().min(1).describe("The package's name."),
  version: z.string().min(1).describe("The version that must be installed."),
  integrity: z
    .string()
    .regex(/^sha\d+-[A-Za-z0-9+/=]+$/, "must be what npm records, such as `sha512-…`")
    .describe("What npm must have recorded as the package's integrity."),
});
export type PinnedPackage = z.output<typeof pinnedPackageSchema>;

/** An entry of `plugins`. */
export const pluginEntrySchema = z.union([z.string(), pinnedPackageSchema]);
export type PluginEntry = z.output<typeof pluginEntrySchema>;
