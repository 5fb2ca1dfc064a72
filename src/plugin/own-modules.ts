const extension = import.meta.url.endsWith(".ts") ? ".ts" : ".js";
const FILES = {
  plugin: "./api",
  "channel-kit": "../channel-kit/api",
  transform: "../mapping/api",
};

/** The modules of Rouse that a user's module may import by name wherever it lies, with the file of each. */
export const OWN_MODULES = new Map(
  Object.entries(FILES).flatMap(([name, path]) => {
    const { href } = new URL(path + extension, import.meta.url);
    return [`rouse/${name}`, `#${name}`].map((specifier) => [specifier, href] as const);
  }),
);

export const isTypeScript = (path: string): boolean => /\.[cm]?tsx?$/.test(path);
export const isPackage = (path: string): boolean => path.includes("/node_modules/");
