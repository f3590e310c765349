/* CartPole and Pendulum with the equations and constants of Gymnasium, and their pictures. A task has reset, step
   (returns reward and the end of the episode), observation, push, and draw. */
"use strict";

const between = (low, high) => low + (high - low) * Math.random();

class CartPole {
  static dt = 0.02;
  static steps = 500;

  reset() {
    [this.x, this.speed, this.angle, this.turn] = [0, 0, 0, 0].map(() => between(-0.05, 0.05));
  }

  get observation() {
    return [this.x, this.speed, this.angle, this.turn];
  }

  step(action) {
    const force = action === 1 ? 10 : -10;
    const [sin, cos] = [Math.sin(this.angle), Math.cos(this.angle)];
    // Masses: cart 1, pole 0.1; half of the pole's length: 0.5.
    const push = (force + 0.05 * this.turn ** 2 * sin) / 1.1;
    const turning = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - (0.1 * cos ** 2) / 1.1));
    const moving = push - (0.05 * turning * cos) / 1.1;
    this.x += CartPole.dt * this.speed;
    this.speed += CartPole.dt * moving;
    this.angle += CartPole.dt * this.turn;
    this.turn += CartPole.dt * turning;
    const fell = Math.abs(this.x) > 2.4 || Math.abs(this.angle) > (12 * Math.PI) / 180;
    return { reward: 1, done: fell };
  }

  push() {
    this.turn += between(0.4, 0.6) * (Math.random() < 0.5 ? 1 : -1);
  }

  draw(canvas, context) {
    const scale = canvas.width / 4.8;
    const [x, y] = [canvas.width / 2 + this.x * scale, canvas.height * 0.75];
    line(context, 0, y, canvas.width, y, 1, "#888");
    context.fillStyle = "#334";
    context.fillRect(x - 40, y - 20, 80, 40);
    line(context, x, y, x + scale * Math.sin(this.angle), y - scale * Math.cos(this.angle), 12, "#c84");
  }
}

class Pendulum {
  static dt = 0.05;
  static steps = 200;

  reset() {
    [this.angle, this.turn, this.torque] = [between(-Math.PI, Math.PI), between(-1, 1), 0];
  }

  get observation() {
    return [Math.cos(this.angle), Math.sin(this.angle), this.turn];
  }

  step(action) {
    this.torque = Math.min(Math.max([action].flat()[0], -2), 2);
    const angle = this.angle - 2 * Math.PI * Math.floor((this.angle + Math.PI) / (2 * Math.PI));
    const cost = angle ** 2 + 0.1 * this.turn ** 2 + 0.001 * this.torque ** 2;
    const faster = this.turn + (15 * Math.sin(this.angle) + 3 * this.torque) * Pendulum.dt;
    this.turn = Math.min(Math.max(faster, -8), 8);
    this.angle += this.turn * Pendulum.dt;
    return { reward: -cost, done: false };
  }

  push() {
    this.turn += between(2, 3) * (Math.random() < 0.5 ? 1 : -1);
  }

  draw(canvas, context) {
    const [x, y, length] = [canvas.width / 2, canvas.height / 2, canvas.height * 0.4];
    line(context, x, y, x - length * Math.sin(this.angle), y - length * Math.cos(this.angle), 18, "#c44");
    line(context, x, y, x - 20 * this.torque, y, 6, "#46c");
    context.fillStyle = "#222";
    context.beginPath();
    context.arc(x, y, 6, 0, 2 * Math.PI);
    context.fill();
  }
}

function line(context, x, y, toX, toY, width, color) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.lineCap = "round";
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

const TASKS = { "CartPole-v0": CartPole, "CartPole-v1": CartPole, "Pendulum-v1": Pendulum };
if (typeof module !== "undefined") module.exports = { TASKS };
