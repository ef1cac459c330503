// node check.mjs SCHEMA FOLDER: every ask that a test run kept, one JSON value a
// line, must be valid under SCHEMA. No ask at all is a failure: nothing was held.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import Ajv2020 from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

const [schema, folder] = process.argv.slice(2);
const ajv = new Ajv2020({ strict: false, allErrors: true });
addFormats(ajv);
const valid = ajv.compile(JSON.parse(readFileSync(schema, "utf8")));

let asks = 0;
let bad = 0;
const kinds = new Set();
for (const file of readdirSync(folder)) {
  for (const line of readFileSync(join(folder, file), "utf8").split("\n")) {
    if (!line) continue;
    const ask = JSON.parse(line);
    asks++;
    kinds.add(ask.action.kind);
    if (!valid(ask) && bad++ < 10) console.error(`${file}: ${ask.approval_id} ${ajv.errorsText(valid.errors)}`);
  }
}
const without = JSON.parse("{}");
if (valid(without)) {
  console.error("the schema refuses nothing");
  bad++;
}
console.log(`${asks} asks of ${[...kinds].sort().join(", ")}: ${bad} not valid`);
process.exit(asks && !bad ? 0 : 1);
