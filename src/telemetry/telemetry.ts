import {
  createContextKey,
  isSpanContextValid,
  ROOT_CONTEXT,
  SpanKind,
  trace,
  type Context,
} from "@opentelemetry/api";
import { readTraceContext } from "../core/trace-context.ts";
import { agentAttributes, createModelCalls } from "./model-calls.ts";
import {
  createSpans,
  toContext,
  toOtel,
  toTraceContext,
  type Spans,
  type SpanTarget,
} from "./spans.ts";
import type { Attributes, SpanEnd, Telemetry, TraceHeaders } from "./types.ts";

/** Marks the context of a request whose span gets the attributes of its event. */
const SERVED = createContextKey("rouse.served");
const ANY_PATH = ":path";

const isFailure = (status: number): boolean => status >= 500;

/** The parent of a request or event: the span of the embedding program, else that of the sender. */
function findParent(spans: Spans, headers: Partial<TraceHeaders>): Context {
  const active = spans.active();
  const sender = readTraceContext({
    traceparent: headers.traceparent,
    tracestate: headers.tracestate,
  });
  return trace.getSpanContext(active) || !sender ? active : toContext(sender, active);
}

type Intake = Pick<Telemetry, "serve" | "receive" | "evaluate">;

function createIntake(spans: Spans): Intake {
  return {
    serve({ method, route, scheme, headers }, answer) {
      const attributes = {
        "http.request.method": method,
        "http.route": route,
        "url.path": route,
        "url.scheme": scheme,
      };
      const parent = findParent(spans, headers).setValue(SERVED, true);
      return spans.inside(
        { name: `${method} ${route}`, kind: SpanKind.SERVER, attributes, parent },
        answer,
        ({ status }) => ({
          attributes: { "http.response.status_code": status },
          error: isFailure(status) ? String(status) : undefined,
        }),
      );
    },
    async receive({ path, isKnown, origin, headers }, work, read) {
      const active = spans.active();
      const attributes: Attributes = {
        "rouse.hook.path": isKnown ? path : undefined,
        "rouse.event.origin": origin,
      };
      if (active.getValue(SERVED)) {
        const result = await work();
        trace.getSpan(active)?.setAttributes(toOtel({ ...attributes, ...read(result).attributes }));
        return result;
      }
      const kind =
        origin === "internal" || origin === "replay" ? SpanKind.INTERNAL : SpanKind.CONSUMER;
      const name = `receive ${isKnown ? path : ANY_PATH}`;
      return spans.inside(
        { name, kind, attributes, parent: findParent(spans, headers) },
        work,
        read,
      );
    },
    evaluate: (path, work, read) =>
      spans.inside(
        {
          name: "evaluate mappings",
          kind: SpanKind.INTERNAL,
          attributes: { "rouse.hook.path": path },
        },
        work,
        read,
      ),
  };
}

type Runs = Pick<Telemetry, "run" | "tool" | "send">;

function createRuns(spans: Spans): Runs {
  return {
    run(
      {
        id,
        kind,
        eventId,
        mapping,
        attempt,
        agentId,
        agentName = agentId,
        session,
        trace: parent,
        correlation,
      },
      work,
      read,
    ) {
      const attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        ...agentAttributes({ agent: { id: agentId, name: agentName }, session }),
        "rouse.run.id": id,
        "rouse.run.kind": kind,
        "rouse.run.attempt": attempt,
        "rouse.event.id": eventId ?? undefined,
        "rouse.mapping": mapping,
        ...Object.fromEntries(
          Object.entries(correlation ?? {}).map(([name, value]) => [`rouse.api.${name}`, value]),
        ),
      };
      const context = parent ? toContext(parent) : spans.active().deleteValue(SERVED);
      const options = {
        name: `invoke_agent ${agentName}`,
        kind: SpanKind.INTERNAL,
        attributes,
        parent: context,
      };
      return spans.inside({ ...options, links: parent?.links ?? [] }, work, read);
    },
    tool({ name, tool, callId }, work, read) {
      const attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": callId,
        "rouse.tool": tool,
      };
      return spans.inside(
        { name: `execute_tool ${name}`, kind: SpanKind.INTERNAL, attributes },
        work,
        read,
      );
    },
    send({ deliveryId, runId, channel, attempt, chunk }, work) {
      const attributes = {
        "rouse.delivery.id": deliveryId,
        "rouse.run.id": runId,
        "rouse.channel": channel,
        "rouse.delivery.attempt": attempt,
        "rouse.delivery.chunk": chunk,
      };
      const read = ({ status }: { status: string }): SpanEnd => ({
        attributes: { "rouse.delivery.status": status },
        error: status === "sent" ? undefined : status,
      });
      return spans.inside(
        { name: `deliver ${channel}`, kind: SpanKind.CLIENT, attributes },
        work,
        read,
      );
    },
  };
}

/** Creates the telemetry of a gateway. */
export function createTelemetry(target: SpanTarget): Telemetry {
  const spans = createSpans(target);
  const current = () => toTraceContext(spans.active());
  return {
    ...createIntake(spans),
    ...createRuns(spans),
    modelCalls: createModelCalls(spans),
    within: (context, work) => spans.activate(context ? toContext(context) : ROOT_CONTEXT, work),
    current,
    ids() {
      const found = trace.getSpanContext(spans.active());
      return found && isSpanContextValid(found)
        ? { traceId: found.traceId, spanId: found.spanId }
        : {};
    },
    close: target.close,
  };
}
