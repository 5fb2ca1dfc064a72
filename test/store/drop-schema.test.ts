import { expect, it } from "vitest";
import { connectPlain } from "./postgres-client.ts";
import { describePostgres, newSchema, plainly } from "./postgres.ts";

describePostgres("the schema of a test", () => {
  it("is dropped also while a gateway holds its tables in the other order", async () => {
    const schema = newSchema();
    await plainly((client) =>
      client.query(
        `CREATE SCHEMA "${schema.name}"; CREATE TABLE "${schema.name}".a (n int); CREATE TABLE "${schema.name}".b (n int)`,
      ),
    );
    const user = await connectPlain();
    // Whichever of the two PostgreSQL ends, the drop waits for the rest of this transaction and then succeeds.
    await user.query(
      `SET deadlock_timeout = '10s'; BEGIN; LOCK TABLE "${schema.name}".b IN ACCESS SHARE MODE`,
    );
    const dropped = schema.drop();
    await new Promise((resolve) => setTimeout(resolve, 200));
    const locked = user.query(`LOCK TABLE "${schema.name}".a IN ACCESS SHARE MODE`);
    await locked;
    await user.query("COMMIT");
    await dropped;
    await user.end();
    const found = await plainly((client) =>
      client.query("SELECT 1 FROM pg_namespace WHERE nspname = $1", [schema.name]),
    );
    expect(found.rowCount).toBe(0);
  });
});
