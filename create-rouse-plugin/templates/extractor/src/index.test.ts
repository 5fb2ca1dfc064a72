import { testExtractor } from "rouse/testing";
import plugin from "./index.ts";

for (const extractor of plugin.extractors ?? [])
  testExtractor("acme", {
    extractor,
    samples: [
      {
        filename: "manual.lines",
        bytes: new TextEncoder().encode(
          "The manual\n\n= Cleaning\nSwitch it off first.\n= Storage\nKeep it dry.\n",
        ),
        expect: {
          title: "The manual",
          text: ["Cleaning", "Switch it off first.", "Storage", "Keep it dry."],
        },
      },
    ],
  });
