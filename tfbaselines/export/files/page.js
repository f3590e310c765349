/* Let the policy play its task on the page; without a task, show its actions on random observations. */
"use strict";

const policy = new Policy(WEIGHTS);
const canvas = document.getElementById("canvas");
const context = canvas.getContext("2d");
const show = (id, text) => (document.getElementById(id).textContent = text);
const Task = TASKS[WEIGHTS.environment];
const lengths = [];
let task, memory, steps, total;
let last = null;

function begin() {
  if (steps) show("episodes", lengths.unshift(`${steps} steps, return ${total.toFixed(1)}`) && lengths.slice(0, 5).join("; "));
  task = new Task();
  task.reset();
  [memory, steps, total] = [null, 0, 0];
}

function step() {
  const { action, state } = policy.act(task.observation, memory);
  const { reward, done } = task.step(action);
  memory = state;
  steps += 1;
  total += reward;
  show("action", [action].flat().map((number) => +number.toFixed(3)).join(", "));
  show("step", steps);
  show("return", total.toFixed(1));
  if (done || steps >= Task.steps) begin();
}

/* Steps take the task's own time, however often the browser draws; after a pause they do not catch up. */
function frame(now) {
  last ??= now;
  for (let count = 0; now - last >= 1000 * Task.dt; count++) {
    if (count === 10) last = now;
    else {
      step();
      last += 1000 * Task.dt;
    }
  }
  context.clearRect(0, 0, canvas.width, canvas.height);
  task.draw(canvas, context);
  requestAnimationFrame(frame);
}

function guess() {
  const observation = Object.fromEntries(
    WEIGHTS.program.inputs
      .filter(({ part }) => part !== "action_mask")
      .map(({ part, size }) => [part, Array.from({ length: size }, () => Math.round(Math.random()))])
  );
  const { action } = policy.act(observation);
  show("what", `This page has no picture of ${WEIGHTS.environment || "this environment"}. On a random observation the action is:`);
  show("action", [action].flat().join(", "));
}

if (Task) {
  show("what", `The policy was trained by ${WEIGHTS.algorithm}. It now acts here, in ${WEIGHTS.program.body.length} operations.`);
  document.getElementById("reset").onclick = begin;
  document.getElementById("push").onclick = () => task.push();
  begin();
  requestAnimationFrame(frame);
} else {
  canvas.hidden = document.getElementById("push").hidden = true;
  document.getElementById("reset").textContent = "Another observation";
  document.getElementById("reset").onclick = guess;
  guess();
}
