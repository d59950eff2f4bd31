'use strict';
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);

// A ramp of 0xRRGGBB colours as 256 entries [r, g, b].
function colourTable(ramp) {
  const table = [];
  for (let i = 0; i < 256; i++) {
    const at = i / 255 * (ramp.length - 1), low = Math.min(Math.floor(at), ramp.length - 2), t = at - low;
    table.push([16, 8, 0].map(shift => {
      const a = ramp[low] >> shift & 255, b = ramp[low + 1] >> shift & 255;
      return Math.round(a + (b - a) * t);
    }));
  }
  return table;
}
const hex = colour => '#' + colour.toString(16).padStart(6, '0');

// Maps a weight to a position on the colour ramp, 0 to 1. `top`: the largest weight.
function scaleOf(name, top) {
  if (name === 'linear' || top <= 0) return w => clamp(w, 0, 1);
  const share = w => clamp(w / top, 0, 1);
  return name === 'root' ? w => Math.sqrt(share(w)) : share;
}
const colourIndex = (scale, w) => Math.round(scale(w) * 255);

const $ = id => document.getElementById(id);

function segments(box, options, chosen, pick) {
  box.replaceChildren(...options.map(([value, text]) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = text;
    button.setAttribute('aria-pressed', value === chosen);
    button.onclick = () => {
      pick(value);
      [...box.children][options.findIndex(option => option[0] === value)].focus();
    };
    return button;
  }));
}
function fillSelect(select, names, chosen) {
  select.replaceChildren(...names.map((name, i) => new Option(name, i, false, i === chosen)));
}

// Shows the tooltip. Text only, so that tokens are never parsed as markup.
function tell(lines, x, y) {
  const tip = $('tip');
  tip.replaceChildren(...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(x + 16, 8, innerWidth - box.width - 8)}px`;
  tip.style.top = `${y + 18 + box.height > innerHeight ? Math.max(y - box.height - 14, 8) : y + 18}px`;
}
const element = (tag, className, text) => Object.assign(document.createElement(tag), {className, textContent: text});
function setBox(id, box) {
  $(id).hidden = !box;
  if (box) ['left', 'top', 'width', 'height'].forEach((side, i) => $(id).style[side] = `${box[i]}px`);
}

const systemDark = matchMedia('(prefers-color-scheme: dark)');
const showsDark = theme => theme === 'dark' || (theme === 'auto' && systemDark.matches);
function showTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  $('theme').textContent = dark ? 'Light' : 'Dark';
}
function showTitle({title, model}) {
  $('title').textContent = title || 'Attention';
  $('model').textContent = model;
}

// Marks the selected head in the overview.
function markChosen(box, {layer, head}) {
  for (const button of box.querySelectorAll('button')) {
    const here = button.dataset.at === `${layer},${head}`;
    button.setAttribute('aria-current', here);
    button.tabIndex = here ? 0 : -1;
  }
}

const ARROWS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};
// Input handlers common to all pages. choose(change) changes the state within its limits and shows it; redraw() adapts to
// the window size.
function listen({state, choose, isDark, readHash, redraw}) {
  $('overview').addEventListener('click', event => {
    const button = event.target.closest('button');
    if (!button) return;
    const [layer, head] = button.dataset.at.split(',').map(Number);
    choose({layer, head});
  });
  $('overview').addEventListener('keydown', event => {
    const arrow = ARROWS[event.key];
    if (!arrow) return;
    event.preventDefault();
    choose({layer: state.layer + arrow[0], head: state.head + arrow[1]});
    $('overview').querySelector('[aria-current="true"]').focus();
  });
  $('layer').onchange = event => choose({layer: Number(event.target.value)});
  $('head').onchange = event => choose({head: Number(event.target.value)});
  $('scale').onchange = event => choose({scale: event.target.value});
  $('theme').onclick = () => choose({theme: isDark() ? 'light' : 'dark'});
  let waiting = 0;
  addEventListener('resize', () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(redraw);
  });
  addEventListener('hashchange', () => { readHash(); choose({}); });
  systemDark.addEventListener('change', () => choose({}));
}

function savePng(canvas, caption) {
  canvas.toBlob(blob => {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = `${caption.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.png`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}
