/** Runs each attack in a process without limits, and sends how it went. */
import { ATTACKS, type Targets } from "./transform-attacks.ts";

async function attackAll(targets: Targets): Promise<void> {
  const results: Record<string, string> = {};
  for (const [name, attack] of Object.entries(ATTACKS)) {
    try {
      await attack(targets);
      results[name] = "went through";
    } catch (error) {
      results[name] = String(error);
    }
  }
  process.send?.(results, () => process.exit());
}

process.on("message", (targets: Targets) => void attackAll(targets));
