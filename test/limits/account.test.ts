import { expect, it } from "vitest";
import { BudgetAccount } from "../../src/queue/account.ts";
import type { Loan } from "../../src/store/types.ts";

const NEED = { starts: 0, places: 1, isInLine: true };
const loan = (places: number): Loan => ({
  scope: "hooks",
  running: 0,
  waiting: 0,
  parked: 0,
  inLine: 0,
  hour: [],
  day: [],
  lent: { places },
  left: { places: 0 },
});
const open = (): BudgetAccount =>
  new BudgetAccount({ scope: "hooks", limits: { concurrent: 5 } }, ["hooks"], true);

it("uses what it has borrowed for five seconds from when it asked for it", () => {
  const account = open();
  account.borrow(loan(2), 1000);
  expect(account.findMissing(NEED, 6000)).toEqual([]);
  expect(account.findMissing(NEED, 6001)).toEqual(["places"]);
});

it("does not ask the store to leave it what it has borrowed longer ago: another gateway may have it", () => {
  const account = open();
  account.borrow(loan(2), 1000);
  expect(account.request(6000).held.places).toBe(2);
  // As a process that was suspended, and then looks what it has.
  const { held } = account.request(30_000);
  account.borrow(loan(0), 30_000);
  expect([held.places, account.findMissing(NEED, 30_001)]).toEqual([0, ["places"]]);
});
