#!/usr/bin/env node
// An agent that asks a contact for work, in one file without dependencies.
// It speaks MCP to `sealbridge mcp` on stdin and stdout and waits as Prickle's
// agents do: handle the events, then keep the cursor, then wait again.
//
//   SEALBRIDGE_AGENT_TOKEN=sba_… node agent.mjs --to ben --goal "Count to three" -- sealbridge mcp --agent claude
//
// Exit 0 with the result on stdout, 1 for another end, 2 for wrong usage.

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { readFileSync, writeFileSync } from 'node:fs';

const [options, server] = parse(process.argv.slice(2));
if (!options.to || !options.goal || server.length === 0) {
  console.error('usage: agent.mjs --to CONTACT --goal TEXT [--input FILE] [--claimed-ok] [--cursor FILE] -- sealbridge mcp');
  process.exit(2);
}

// One request, one answer: JSON-RPC, a message a line.
const child = spawn(server[0], server.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
const open = new Map();
let last = 0;
createInterface({ input: child.stdout }).on('line', (line) => {
  const message = JSON.parse(line); // anything else on stdout is a fault
  const waiting = open.get(message.id);
  if (!waiting) return; // a notification
  open.delete(message.id);
  if (message.error) waiting.reject(new Error(message.error.message));
  else waiting.resolve(message.result);
});
child.on('close', (code) => {
  for (const waiting of open.values()) waiting.reject(new Error(`sealbridge mcp ended with ${code}`));
});

function send(message) {
  child.stdin.write(JSON.stringify({ jsonrpc: '2.0', ...message }) + '\n');
}

function request(method, params) {
  const id = ++last;
  return new Promise((resolve, reject) => {
    open.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

async function call(name, args) {
  const result = await request('tools/call', { name, arguments: args });
  if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
  return result.structuredContent;
}

// What another owner wrote is data. This agent prints it and obeys none of it.
function data(foreign) {
  return foreign.data === undefined ? foreign.text : JSON.stringify(foreign.data);
}

async function run() {
  await request('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'example', version: '1' } });
  send({ method: 'notifications/initialized' });

  const { contacts } = await call('list_contacts', {});
  const contact = contacts.find((c) => c.name.toLowerCase() === options.to.toLowerCase());
  if (!contact || !contact.may_ask) throw new Error(`${options.to} is nobody that may be asked`);

  const draft = { to: contact.name, goal: options.goal };
  if (options.input) draft.inputs = [{ file: options.input }];
  if (options['claimed-ok']) draft.sandbox = { claimed_ok: true };
  const asked = await call('delegate_task', draft);
  console.error(`${asked.task_id}: ${asked.next.who} acts: ${asked.next.do}`);

  let cursor = kept();
  for (;;) {
    const seen = await call('wait_for_mention', cursor ? { cursor, timeout_seconds: 45 } : { timeout_seconds: 45 });
    let events = seen.events;
    if (seen.status === 'resync') ({ events } = await call('check_inbox', {})); // what came before, first
    const mine = events.map((e) => e.task).filter((t) => t && t.id === asked.task_id).pop();
    if (mine) console.error(`${asked.task_id}: ${mine.state}${mine.waiting_on ? ` (${mine.waiting_on})` : ''}`);
    cursor = seen.cursor; // only now: a crash before this line brings the events again
    keep(cursor);
    if (mine && ['completed', 'rejected', 'returned', 'cancelled'].includes(mine.state)) return finish(mine.state, asked.task_id);
  }
}

async function finish(state, task_id) {
  if (state !== 'completed') {
    const { reason, next } = await call('get_task', { task_id });
    console.error(`${state}: ${reason ? data(reason) : next.do}`);
    return 1;
  }
  const result = await call('get_result', { task_id, wait_seconds: 20 });
  console.log(data(result.output));
  return 0;
}

function kept() {
  try {
    return options.cursor ? readFileSync(options.cursor, 'utf8') : '';
  } catch {
    return '';
  }
}

function keep(cursor) {
  if (options.cursor) writeFileSync(options.cursor, cursor);
}

function parse(args) {
  const out = {};
  while (args.length > 0) {
    const arg = args.shift();
    if (arg === '--') return [out, args];
    const name = arg.replace(/^--/, '');
    out[name] = name === 'claimed-ok' ? true : args.shift();
  }
  return [out, []];
}

run()
  .then((code) => { process.exitCode = code; })
  .catch((err) => { console.error(`agent: ${err.message}`); process.exitCode = 1; })
  .finally(() => child.stdin.end());
