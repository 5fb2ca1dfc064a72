import { existsSync, readdirSync, realpathSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { readVariable } from "../../config/environment.ts";
import { renderPath } from "../../config/issues.ts";
import { readJson5 } from "../../config/json5.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { mask, maskConfig } from "../../config/mask.ts";
import { mappingFileSchema } from "../../config/schema/mapping.ts";
import { findSecretFields, VARIABLE_REFERENCE, type SecretField } from "../../config/secrets.ts";
import type { CliIo } from "../io.ts";

/** A field of the config or of a mapping file that holds a secret. */
export interface SecretUse extends SecretField {
  /** The file that the field is in, and all that is written there. */
  config: string;
  written: unknown;
  /** The field's path, as people write it. */
  at: string;
  /** The name of the secret. */
  name: string;
  /** The place of the secret: a file, a variable, or the config itself. */
  place: string;
  /** The secret's file. Undefined if it is in no file that this machine finds. */
  file: string | undefined;
}

/** Names a secret, and says where it is kept. */
function locate(
  value: SecretField["value"],
  at: string,
  config: string,
  { baseDir }: LoadedConfig,
  env: CliIo["env"],
): Pick<SecretUse, "name" | "place" | "file"> {
  if (typeof value === "string") {
    const variable = VARIABLE_REFERENCE.exec(value)?.[1];
    return variable === undefined
      ? { name: at, place: `${at} in ${config}`, file: undefined }
      : { name: variable, place: `the variable ${variable}`, file: undefined };
  }
  const text = value.file.replaceAll(
    /\$\{(\w+)\}/g,
    (all, name: string) => readVariable(env, name) ?? all,
  );
  const file = text.includes("${") ? undefined : resolve(baseDir, text);
  return { name: basename(text), place: file ?? text, file };
}

/** Finds the fields that hold secrets, of the config and of the files of `hooks.mappingsDir`. The values of none are needed. */
export function findSecretUses(loaded: LoadedConfig, env: CliIo["env"]): SecretUse[] {
  const { written, file = "", config } = loaded;
  const folder = config.hooks.mappingsDir;
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const documents = [{ file, written, masked: maskConfig(written), label: "" }];
  for (const name of names.toSorted()) {
    if (!/(?<!\.schema)\.json5?$/.test(name) || !existsSync(join(folder, name))) continue;
    const path = realpathSync(join(folder, name));
    const { value } = { value: undefined, ...readJson5(path) };
    documents.push({
      file: path,
      written: value,
      masked: mask(value, [mappingFileSchema]),
      label: `mappings/${name}: `,
    });
  }
  return documents.flatMap(({ label, ...document }) =>
    findSecretFields(document.written, document.masked).map((field) => {
      const at = label + renderPath(field.path);
      return {
        ...field,
        config: document.file,
        written: document.written,
        at,
        ...locate(field.value, at, document.file, loaded, env),
      };
    }),
  );
}
