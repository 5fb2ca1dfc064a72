import { createRequire } from "node:module";
import type * as prom from "prom-client";

// The package's index also loads its push gateway, cluster and default metrics: ten times the time of these four.
const require = createRequire(import.meta.url);
export const Registry = require("prom-client/lib/registry.js") as typeof prom.Registry;
export const Counter = require("prom-client/lib/counter.js") as typeof prom.Counter;
export const Gauge = require("prom-client/lib/gauge.js") as typeof prom.Gauge;
export const Histogram = require("prom-client/lib/histogram.js") as typeof prom.Histogram;
