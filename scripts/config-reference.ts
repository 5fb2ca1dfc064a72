/** The reference of the config file, from the schemas that check it. */
import { fieldSchema } from "../src/config/json-schema.ts";
import { configSchema } from "../src/config/schema/index.ts";
import { optionsIn, optionTable, table } from "./options.ts";

const INTRODUCTION = `# Config reference

Generated from the schemas that check the config (\`npm run docs\`); do not edit by hand.

- The file is JSON5. A key that is there twice is an error. Relative paths start at the folder of the config file.
- \`\${NAME}\` in any text is the variable of the environment, without a final line end. As the whole value it also stands for a number, \`true\` or \`false\`: \`port: "\${PORT}"\`.
- \`{ file: "…" }\` in place of a secret is the content of a file.
- Durations are text such as \`"90s"\`, \`"30m"\`, \`"24h"\`, \`"3d"\`; a number alone is seconds.
- A template is text with \`{{ expression }}\`: see [Mappings](mappings.md#templates).

The gateway watches this file and every file that it names: mappings, plugins, schemas, transform modules and secrets, also through links. It applies a change within two seconds. The log says \`the config was reloaded\`, or lists the problems, and then the config before stays in use. \`SIGHUP\` and \`POST /admin/v1/reload\` reload if the file system reports no changes.
`;

/** All keys. `providerTypes`: the kinds of model providers that ship. */
export function configReference(providerTypes: readonly string[]): string {
  const options = optionsIn(fieldSchema(configSchema, { providerTypes }), "", new Map());
  const sections = Map.groupBy(options, ({ path }) => /^[^.[]+/.exec(path)?.[0] ?? path);
  const parts = [...sections].map(([name, [section, ...keys]]) => {
    const rows = optionTable(keys.length === 0 && section ? [section] : keys, ({ path }) =>
      path.includes("["),
    );
    return `## \`${name}\`\n\n${keys.length > 0 && section ? `${section.description}\n\n` : ""}${table(rows)}\n`;
  });
  return [INTRODUCTION, ...parts].join("\n");
}
