/* Act with a policy that tfbaselines exported: plain JavaScript for browsers and node.

   const policy = new Policy(WEIGHTS);                    // WEIGHTS comes from weights.js
   let { action, state } = policy.act(observation);       // where an episode begins
   ({ action, state } = policy.act(observation, state));  // further steps; state is null without a memory
*/
"use strict";

class Policy {
  constructor({ program, weights }) {
    this.program = program;
    this.values = program.sizes.map((size) => new Float32Array(size));
    this.weights = {};
    for (const name in weights) this.weights[name] = decoded(weights[name]);
    const prepared = (operations) => operations.map((operation) => this.prepared(operation));
    this.body = prepared(program.body);
    this.mostLikely = prepared(program.act.operations);
    this.sampled = prepared(program.sample ? program.sample.operations : []);
  }

  /* Compute an action: a number, or an array.

     observation: an array of numbers, an image in the order rows, columns, channels; or an object with an array for
     each part. Without an action mask every action is allowed.
     state: the memory that the call before returned; null where an episode begins.
     noise: an array of program.noise.size numbers for a sampled action; null for the most likely one. */
  act(observation, state = null, noise = null) {
    const { inputs } = this.program;
    const parts = isArray(observation) ? { [inputs[0].part]: observation } : observation;
    for (const { part, value } of inputs)
      if (part === "action_mask" && parts[part] === undefined) this.values[value].fill(1);
      else fill(this.values[value], parts[part], part);
    if (this.program.state) fill(this.values[this.program.state.value], state || 0, "state");
    if (noise) fill(this.values[this.program.noise.value], noise, "noise");
    const ending = noise ? this.program.sample : this.program.act;
    for (const run of this.body) run();
    for (const run of noise ? this.sampled : this.mostLikely) run();
    const numbers = Array.from(this.values[ending.action]);
    const action = this.program.action.shape.length ? numbers : numbers[0];
    return { action, state: ending.state === null ? null : this.values[ending.state].slice() };
  }

  /* Return a function that fills the output of an operation. */
  prepared({ kind, inputs, output, settings, weights }) {
    const given = { ...settings };
    for (const role in weights) given[role] = this.weights[weights[role]];
    const values = inputs.map((number) => this.values[number]);
    return () => OPERATIONS[kind](values, this.values[output], given);
  }
}

function isArray(numbers) {
  return Array.isArray(numbers) || ArrayBuffer.isView(numbers) || typeof numbers === "number";
}

function fill(target, numbers, name) {
  const row = Array.isArray(numbers) ? numbers.flat(Infinity) : numbers;
  if (typeof row === "number") target.fill(row);
  else if (row === undefined || row.length !== target.length)
    throw new RangeError(`${name} needs ${target.length} numbers, not ${row === undefined ? "none" : row.length}`);
  else target.set(row);
}

function decoded(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}

/* Call visit(place of an output, place of an input, number of the window's place) for windows of an image. */
function windows({ image, out, size, strides, pads, dilation = [1, 1] }, visit) {
  for (let r = 0; r < out[0]; r++)
    for (let c = 0; c < out[1]; c++)
      for (let kr = 0; kr < size[0]; kr++)
        for (let kc = 0; kc < size[1]; kc++) {
          const row = r * strides[0] + kr * dilation[0] - pads[0];
          const column = c * strides[1] + kc * dilation[1] - pads[1];
          if (row < 0 || row >= image[0] || column < 0 || column >= image[1]) continue;
          visit((r * out[1] + c) * out[2], (row * image[1] + column) * image[2], kr * size[1] + kc);
        }
}

/* The error function within 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

/* Halves go to even numbers. */
function round(x) {
  const near = Math.round(x);
  return near - x === 0.5 && near % 2 !== 0 ? near - 1 : near;
}

const FUNCTIONS = {
  relu: (x) => Math.max(x, 0),
  tanh: Math.tanh,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  exp: Math.exp,
  elu: (x) => (x > 0 ? x : Math.expm1(x)),
  softplus: (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  softsign: (x) => x / (1 + Math.abs(x)),
  erf,
  step: (x) => (x > 0 ? 1 : 0),
  round,
};

const COMBINATIONS = {
  add: (x, z) => x + z,
  subtract: (x, z) => x - z,
  multiply: (x, z) => x * z,
  maximum: Math.max,
  minimum: Math.min,
};

/* Functions of the inputs, the output to fill, and settings with weights; tfbaselines/export/program.py explains them. */
const OPERATIONS = {
  dense([x], y, { rows, width, units, kernel, bias }) {
    for (let row = 0; row < rows; row++) {
      y.set(bias, row * units);
      for (let i = 0; i < width; i++) {
        const number = x[row * width + i];
        for (let j = 0; j < units; j++) y[row * units + j] += number * kernel[i * units + j];
      }
    }
  },
  conv2d([x], y, { kernel, bias, ...settings }) {
    const channels = settings.image[2];
    const filters = settings.out[2];
    for (let to = 0; to < y.length; to += filters) y.set(bias, to);
    windows(settings, (to, from, place) => {
      let weight = place * channels * filters;
      for (let i = from; i < from + channels; i++)
        for (let f = to; f < to + filters; f++) y[f] += x[i] * kernel[weight++];
    });
  },
  pool2d([x], y, { how, ...settings }) {
    const counts = new Float32Array(y.length);
    y.fill(how === "max" ? -Infinity : 0);
    windows(settings, (to, from) => {
      for (let i = 0; i < settings.image[2]; i++) {
        y[to + i] = how === "max" ? Math.max(y[to + i], x[from + i]) : y[to + i] + x[from + i];
        counts[to + i]++;
      }
    });
    if (how === "average") counts.forEach((count, i) => (y[i] /= count));
  },
  layer_norm([x], y, { width, gamma, beta, epsilon }) {
    for (let begin = 0; begin < x.length; begin += width) {
      const group = Array.from(x.subarray(begin, begin + width));
      const mean = group.reduce((sum, one) => sum + one, 0) / width;
      const variance = group.reduce((sum, one) => sum + (one - mean) ** 2, 0) / width;
      const scale = 1 / Math.sqrt(variance + epsilon[0]);
      group.forEach((one, i) => (y[begin + i] = (one - mean) * scale * gamma[i] + beta[i]));
    }
  },
  affine([x], y, { minus, times, plus }) {
    // Rounded to float32 like the training: a table's cells have sharp edges.
    const { fround } = Math;
    for (let i = 0; i < x.length; i++)
      y[i] = fround(fround(x[i] - minus[i % minus.length]) * times[i % times.length]) + plus[i % plus.length];
  },
  clip([x], y, { low, high }) {
    for (let i = 0; i < x.length; i++) y[i] = Math.min(Math.max(x[i], low[i % low.length]), high[i % high.length]);
  },
  activation([x], y, { name }) {
    for (let i = 0; i < x.length; i++) y[i] = FUNCTIONS[name](x[i]);
  },
  softmax([x], y, { width }) {
    for (let begin = 0; begin < x.length; begin += width) {
      const group = Array.from(x.subarray(begin, begin + width));
      const powers = group.map((one) => Math.exp(one - Math.max(...group)));
      const sum = powers.reduce((total, one) => total + one, 0);
      powers.forEach((one, i) => (y[begin + i] = one / sum));
    }
  },
  weighted_sum([x], y, { width, weights }) {
    for (let k = 0; k < y.length; k++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += x[k * width + i] * weights[i];
      y[k] = sum;
    }
  },
  combine([x, z], y, { how }) {
    for (let i = 0; i < x.length; i++) y[i] = COMBINATIONS[how](x[i], z[i]);
  },
  concat(parts, y, { rows, widths }) {
    let to = 0;
    for (let row = 0; row < rows; row++)
      parts.forEach((part, k) => {
        y.set(part.subarray(row * widths[k], (row + 1) * widths[k]), to);
        to += widths[k];
      });
  },
  slice([x], y, { begin, end }) {
    y.set(x.subarray(begin, end));
  },
  one_hot([x], y, { sizes, starts }) {
    let begin = 0;
    y.fill(0);
    sizes.forEach((size, k) => {
      y[begin + x[k] - starts[k]] = 1;
      begin += size;
    });
  },
  gather([x], y, { table, strides, width }) {
    const row = strides.reduce((sum, stride, k) => sum + Math.trunc(x[k]) * stride, 0);
    y.set(table.subarray(row * width, (row + 1) * width));
  },
  argmax([x], y, { sizes, starts }) {
    let begin = 0;
    sizes.forEach((size, k) => {
      let best = 0;
      for (let i = 1; i < size; i++) if (x[begin + i] > x[begin + best]) best = i;
      y[k] = best + starts[k];
      begin += size;
    });
  },
};

if (typeof module !== "undefined") module.exports = { Policy };
