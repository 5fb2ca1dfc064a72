import { expect, it } from "vitest";
import { platformWorld } from "./world.ts";

it.each([false, true])(
  "an effort that the model refuses is left out, and the run has a warning (streamed: %s)",
  async (stream) => {
    const world = await platformWorld();
    try {
      world.model.says = ({ body }) =>
        body.reasoning_effort === undefined
          ? { text: ["Here."] }
          : {
              status: 400,
              error: {
                message: "Unsupported parameter: 'reasoning_effort'",
                param: "reasoning_effort",
              },
            };
      for (let turn = 0; turn < 2; turn++)
        expect((await world.chat({ reasoning_effort: "high", stream })).text).toContain("Here.");
      expect(world.model.asked.map(({ body }) => body.reasoning_effort)).toEqual([
        "high",
        undefined,
        "high",
        undefined,
      ]);
      const { runs } = (await world.admin("/admin/v1/runs")).body;
      for (const { id } of runs) {
        const { run } = (await world.admin(`/admin/v1/runs/${id}`)).body;
        expect(run.warnings).toEqual([
          expect.stringContaining('the model refuses "high"; it was left out'),
        ]);
      }
      expect(runs).toHaveLength(2);
    } finally {
      await world.close();
    }
  },
);
