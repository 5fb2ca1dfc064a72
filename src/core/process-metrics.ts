import { monitorEventLoopDelay } from "node:perf_hooks";
import type * as prom from "prom-client";
import { Counter, Gauge } from "./prometheus.ts";

const SAMPLE_MS = 20;

/** The process itself: memory, processor time, event-loop delay. Returns how to end the measuring. */
export function addProcess(registers: prom.Registry[]): () => void {
  const delay = monitorEventLoopDelay({ resolution: SAMPLE_MS });
  // Node reports the whole time between two samples, the planned wait included.
  const seconds = (nanoseconds: number): number => Math.max(0, nanoseconds / 1e9 - SAMPLE_MS / 1e3);
  delay.enable();
  new Gauge({
    name: "rouse_event_loop_delay_seconds",
    help: "Delay of the event loop since the last scrape.",
    labelNames: ["quantile"],
    registers,
    collect() {
      this.set({ quantile: "0.5" }, seconds(delay.percentile(50)));
      this.set({ quantile: "0.99" }, seconds(delay.percentile(99)));
      this.set({ quantile: "1" }, seconds(delay.max));
      delay.reset();
    },
  });
  new Gauge({
    name: "process_resident_memory_bytes",
    help: "Resident memory.",
    registers,
    collect() {
      this.set(process.memoryUsage.rss());
    },
  });
  new Counter({
    name: "process_cpu_seconds_total",
    help: "Processor time, user and system.",
    registers,
    collect() {
      const { user, system } = process.cpuUsage();
      this.reset();
      this.inc((user + system) / 1e6);
    },
  });
  new Gauge({
    name: "process_start_time_seconds",
    help: "Start of the process, since the epoch.",
    registers,
  }).set(performance.timeOrigin / 1000);
  return () => void delay.disable();
}
