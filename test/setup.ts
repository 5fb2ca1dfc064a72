import { connectPlain } from "./store/postgres-client.ts";

/** Looks once whether there is a PostgreSQL to test with, and says what is left out where there is none. */
export default async function setup(): Promise<void> {
  // Each project of the config asks.
  if (process.env["TEST_POSTGRES_ANSWERS"] !== undefined) return;
  try {
    await (await connectPlain()).end();
    process.env["TEST_POSTGRES_ANSWERS"] = "yes";
  } catch {
    process.env["TEST_POSTGRES_ANSWERS"] = "no";
    if (process.env["TEST_POSTGRES_REQUIRED"] !== "1")
      process.stderr.write(
        "No PostgreSQL answers at TEST_POSTGRES_URL (default postgres://127.0.0.1:5432/test): the tests of the store and queue on it are left out.\n",
      );
  }
}
