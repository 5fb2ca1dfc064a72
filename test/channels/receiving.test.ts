import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { receivingContract } from "../contract/receiving.ts";
import { VENDORS } from "./vendors.ts";

const PLUGINS = resolve(import.meta.dirname, "../../plugins");

it("receiving: every channel that receives is tested here", () => {
  const catalog = JSON.parse(readFileSync(`${PLUGINS}/catalog.json`, "utf8")) as { id: string }[];
  const receiving = catalog
    .filter(({ id }) => existsSync(`${PLUGINS}/${id}/receive.ts`))
    .map(({ id }) => id);
  expect(VENDORS.map(({ id }) => id).toSorted()).toEqual(receiving.toSorted());
});

for (const vendor of VENDORS) receivingContract(vendor);
