// One task through the agents' door with the official TypeScript SDK's client:
//   node client.mjs stdio COMMAND ARGS…      or      node client.mjs http URL
// It prints the handle, then the result; a person says yes meanwhile.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [kind, at, ...args] = process.argv.slice(2);
const token = process.env.SEALBRIDGE_AGENT_TOKEN;
const transport = kind === 'stdio'
  ? new StdioClientTransport({ command: at, args, env: process.env })
  : new StreamableHTTPClientTransport(new URL(at), { requestInit: { headers: { Authorization: `Bearer ${token}` } } });

const client = new Client({ name: 'official', version: '1' });
await client.connect(transport);

async function call(name, args) {
  const result = await client.callTool({ name, arguments: args }); // held against the tool's output schema by the SDK
  if (result.isError) throw new Error(`${name}: ${result.content[0].text}`);
  return result.structuredContent;
}

const { tools } = await client.listTools();
if (tools.length !== 13) throw new Error(`${tools.length} tools`);
const { contacts } = await call('list_contacts', {});
const asked = await call('delegate_task', { to: contacts[0].name, goal: 'Answer with any result.', sandbox: { claimed_ok: true } });
console.log(asked.task_id);
let seen = await call('check_inbox', {});
for (;;) {
  const mine = seen.events.map((e) => e.task).find((t) => t.id === asked.task_id);
  if (mine?.state === 'completed') break;
  if (['rejected', 'returned', 'cancelled'].includes(mine?.state)) throw new Error(mine.state);
  seen = await call('wait_for_mention', { cursor: seen.cursor, timeout_seconds: 10 });
}
const result = await call('get_result', { task_id: asked.task_id, wait_seconds: 20 });
console.log(JSON.stringify(result.output));
const bad = await client.callTool({ name: 'get_task', arguments: { task_id: 'task_00000000000000000000000000' } });
if (!bad.isError || !bad.content[0].text.startsWith('not-found')) throw new Error(JSON.stringify(bad));
await client.close();
