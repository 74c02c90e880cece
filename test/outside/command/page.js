// page.js PAGE: runs the script of a drawing in a window of our own. It opens so that its text can be read, with a
// box in sight, and keeps its view when the window gets another size.
const fs = require('fs');

const html = fs.readFileSync(process.argv[2], 'utf8');
const script = html.match(/<script>([^]*)<\/script>/)[1];
const width = +html.match(/data-w="(\d+)"/)[1];
const box = html.match(/<g class="b[^]*?<rect[^>]* x="([-\d.]+)" y="([-\d.]+)" width="([-\d.]+)"/);
const number = i => Number(box[i]);

let seen = {left: 0, top: 0, width: 1000, height: 800};
const view = {x: 0, y: 0, width, height: 1};
const listeners = {};
const on = (name, f) => { (listeners[name] = listeners[name] || []).push(f); };
const first = {addEventListener() {}, getBBox: () => ({x: number(1), y: number(2), width: number(3), height: 30})};
const svg = {viewBox: {baseVal: view}, dataset: {w: String(width)}, addEventListener: on,
             querySelectorAll: () => [first], getBoundingClientRect: () => seen};
const document = {querySelector: () => svg, getElementById: () => ({addEventListener() {}})};
new Function('document', 'addEventListener', script)(document, on);

const fail = text => { console.log(`${process.argv[2]}: ${text}: ${JSON.stringify(view)}`); process.exit(1); };
const scale = () => seen.width / view.width;
const near = (a, b) => Math.abs(a - b) < 1e-6 * (1 + Math.abs(a));
if (!(scale() >= 0.79)) fail(`opens at ${scale()} of its size, too small to be read`);
const middle = number(1) + number(3) / 2;
if (!(view.x <= middle && middle <= view.x + view.width)) fail('the first box is out of sight');

view.x += 70;
view.y += 900;
for (const [w, h] of [[700, 800], [1600, 300], [1000, 800]]) {
    const k = scale(), x = view.x + view.width / 2, y = view.y + view.height / 2;
    seen = {left: 0, top: 0, width: w, height: h};
    listeners.resize.forEach(f => f());
    if (!near(k, scale()) || !near(x, view.x + view.width / 2) || !near(y, view.y + view.height / 2) ||
        !near(view.height / view.width, h / w))
        fail(`${w} x ${h} moves the view`);
}
