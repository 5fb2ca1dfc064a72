import type { Phrases } from "./types.ts";

export const ENGLISH: Phrases = {
  locale: "en",
  pairing: (code) =>
    `I only answer people that my operator has approved. Give this code to the operator: ${code}. It is valid for one hour.`,
  paired: "You have been approved. Please send your message again.",
  greeting: (agent) =>
    `Hello! I am ${agent}. Write to me what you need. \`/help\` lists the commands.`,
  newConversation: "A new conversation begins with your next message.",
  nothingToStop: "Nothing to stop.",
  stopped: "Stopped.",
  stoppedTurns: (count) => `Stopped: ${count} turns.`,
  notStopped: (count) => `${count} turns could not be stopped. Try again in a minute.`,
  waits: (tool, code) =>
    `Your message waits, because the agent waits for a decision about a call of ${tool} (approval ${code}). Write /stop to end that run.`,
  apology: "I cannot answer right now; my operator has been told.",
  apologyToOwner: (reason, runId) => `I could not answer that: ${reason} (${runId})`,
  modelAway: "I will answer as soon as my model answers again.",
  noAnswer: "I have no answer to that.",
  outOfRoom: "I ran out of room before I could answer. Please ask for less at a time.",
  help: {
    new: "begin a new conversation",
    stop: "stop the running answer",
    status: "show the agent, the model and what is running",
    agent: "show the agent of this conversation, or choose another one",
    link: "link this channel with another one of yours, by a code",
    unlink: "end the link of this channel",
    approve: "approve a call or a person, by the code",
    deny: "deny a call or a person, by the code",
    help: "show this list",
  },
  status: {
    agent: "Agent: ",
    model: "Model: ",
    session: "Session: ",
    running: "Running turns: ",
    waiting: "Waiting turns: ",
    tokens: "Tokens today: ",
    noModel: "none",
  },
  agents: {
    current: (agent) => `The agent of this conversation is ${agent}.`,
    choices: (commands) => `You can choose: ${commands}.`,
    fixed: "The agent of this conversation cannot be changed here.",
    unknown: "There is no such agent here.",
    chosen: (agent) =>
      `From now on ${agent} answers here. Each agent has a conversation of its own.`,
  },
  decisions: {
    notAllowed: "You are not one of the approvers of this agent, so nothing was decided.",
    noPerson: "No person waits with this code: it is wrong, has expired, or was used.",
    personApproved: (person, channel) => `Approved: "${person}" may write on ${channel}.`,
    personDenied: (person, channel) => `Denied: "${person}" is not answered on ${channel}.`,
    made: {
      approve: (tool) => `Approved: ${tool} is called.`,
      deny: (tool) => `Denied: ${tool} is not called.`,
      repeat: (tool) => `${tool} is called once more.`,
      done: (tool) => `The call of ${tool} counts as done.`,
      give_up: (tool) => `Given up: ${tool} is not called again, and the run ends.`,
    },
    past: {
      approve: "approved",
      deny: "denied",
      repeat: "to be repeated",
      done: "treated as done",
      give_up: "given up",
    },
    before: (code, past, by, at) =>
      `The approval ${code} was decided before (${past} by ${by} at ${at}): a decision cannot be changed.`,
    noApproval: "There is no approval with this code.",
    expired: (code) => `The approval ${code} has expired: the call is not made.`,
    wrongVerdict: (code, verdicts) => `This does not fit the approval ${code}. Write ${verdicts}.`,
    runEnded: (code) => `The run of the approval ${code} has ended, so there is nothing to decide.`,
    changed: (code) =>
      `The arguments of the call have changed, so the approval ${code} no longer counts.`,
  },
  questions: {
    wants: (code, agent, tool) => `**Approval ${code}**: the agent ${agent} wants to call ${tool}.`,
    unknown: (code, agent, tool) =>
      `**Approval ${code}**: the agent ${agent} called ${tool}, and whether the call took effect is not known.`,
    cut: (count, command) => `[cut: ${count} characters; ${command} shows them]`,
    why: (reason) => `Why it asks: ${reason}`,
    until: (time) => `It waits until ${time}.`,
    or: "or",
    instruction: (forms) => `Reply ${forms}.`,
    labels: {
      approve: "Approve",
      deny: "Deny",
      repeat: "Repeat the call",
      done: "Treat as done",
      give_up: "Give up",
    },
    ended: (past, by, at) => `**${past}** by ${by} at ${at}.`,
    expired: (at) => `**Expired** at ${at}.`,
  },
  links: {
    code: (code) =>
      `Send me \`/link ${code}\` from your other channel within ten minutes. Give the code to no other person: whoever sends it shares your conversation.`,
    linked: (channel) =>
      `Linked with ${channel}. Your direct messages there and here now share one conversation. \`/unlink\` ends this.`,
    unlinked: "Unlinked. Your direct messages here have a conversation of their own again.",
    notLinked: "This channel is not linked.",
    notDirect:
      "`/link` works in direct messages only. A code that was sent here is no longer valid.",
    mainSession:
      "Your direct messages join the main conversation of the agent, so this channel cannot be linked. The operator can name your other channels in the config.",
    wrongCode:
      "This code is wrong, has expired, or was used. Send `/link` on your other channel for a new one.",
    sameChannel: "This code is for your other channel: send it to me from there.",
    alreadyLinked: "These channels are linked already.",
    differentPeople:
      "These channels belong to different people by the config, so they were not linked. The operator can change that.",
    tooMany: "Too many attempts. Try again in an hour.",
    full: "No further channel can be linked.",
  },
};
