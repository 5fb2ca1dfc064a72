/**
 * The suites of what every plugin promises, one for each kind: call one in a test file of vitest. Each `testX` declares its
 * tests immediately, so it is called at the top of the file or inside a `describe`.
 */
export { createCapability, createTestContext } from "./capability.ts";
export { testChannel, type ChannelHarness, type Fault } from "./channel.ts";
export { testContext, type ContextHarness } from "./context.ts";
export { testExtractor, type ExtractorOptions, type ExtractorSample } from "./extractor.ts";
export type { Harness, Open } from "./harness.ts";
export { parseHttpSample, type HttpSample } from "../contract/http-sample.ts";
export { testPreset, type PresetOptions, type PresetSample } from "./preset.ts";
export { testProvider, type ProviderHarness } from "./provider.ts";
export { testRoutes, type RouteSample, type RoutesHarness } from "./routes.ts";
export { testScheme, type SchemeSample, type Signer, type Signing } from "./scheme.ts";
export { testSource, type SourceHarness } from "./source.ts";
export { testTools, type ToolSample, type ToolsHarness } from "./tools.ts";
export { testTransform, type TransformOptions, type TransformSample } from "./transform.ts";
