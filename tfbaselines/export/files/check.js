/* Act on test vectors: compare the actions with those expected, and measure the processor time of one action.

   node check.js [vectors.bin [weights.js [REPEATS]]]: a row of vectors.bin has float32 numbers: observation, mask, state, noise
   (what the policy has of them), then the expected action and new state. */
"use strict";

const fs = require("fs");
const path = require("path");
const { Policy } = require("./policy.js");

const [, , vectors = path.join(__dirname, "vectors.bin"), weights = path.join(__dirname, "weights.js")] = process.argv;
const repeats = +(process.argv[4] || 1);
const text = fs.readFileSync(weights, "utf8");
const data = JSON.parse(text.slice(text.indexOf("{"), text.lastIndexOf("}") + 1));
const { program, sampled } = data;
const policy = new Policy(data);
const observed = [...program.inputs].sort((a, b) => (a.part === "action_mask") - (b.part === "action_mask"));
const state = program.state ? program.state.size : 0;
const others = [state, sampled ? program.noise.size : 0, program.action.size, state];
const width = [...observed.map(({ size }) => size), ...others].reduce((sum, size) => sum + size, 0);
const bytes = fs.readFileSync(vectors);
const count = Math.floor(bytes.length / (4 * width));
if (count === 0) {
  console.error(`${vectors} has no vectors`);
  process.exit(2);
}

let most = 0;
let microseconds = 0;
for (let k = 0; k < count; k++) {
  const row = Float32Array.from({ length: width }, (_, i) => bytes.readFloatLE(4 * (k * width + i)));
  let begin = 0;
  const next = (size) => row.subarray(begin, (begin += size));
  const observation = Object.fromEntries(observed.map(({ part, size }) => [part, next(size)]));
  const [before, noise, action, after] = others.map(next);
  const start = process.cpuUsage();
  let found;
  for (let repeat = 0; repeat < repeats; repeat++) found = policy.act(observation, before, sampled ? noise : null);
  const { user, system } = process.cpuUsage(start);
  microseconds += user + system;
  const pairs = [[[found.action].flat(), action], [found.state || [], after]];
  for (const [numbers, expected] of pairs)
    expected.forEach((wanted, i) => {
      const gap = Math.abs(numbers[i] - wanted) / Math.max(1, Math.abs(wanted));
      most = gap <= most ? most : Number.isNaN(gap) ? Infinity : gap;
    });
}
console.log(
  `${count} vectors, largest difference ${most}, ${(microseconds / count / repeats).toFixed(3)} microseconds an action`
);
process.exit(most <= 1e-5 ? 0 : 1);
