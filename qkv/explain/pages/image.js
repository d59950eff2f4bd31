(() => {
const data = JSON.parse($('data').textContent);
const {rows, columns} = data, own = data.own.length, tokens = own + rows * columns;
const MEAN = data.heads, ROLLOUT = data.heads + 1;
const VIEWS = [['heat', 'Heat'], ['light', 'Light'], ['image', 'Image']];

// Each row: weights of the special tokens and the maximum over the patches as floats, then the patches' shares of it.
function unpacked(text, width) {
  const bytes = Uint8Array.from(atob(text), c => c.charCodeAt(0));
  return {view: new DataView(bytes.buffer), width, size: 4 * (own + 1) + width * (tokens - own)};
}
const layers = data.layers.map(text => unpacked(text, 1)), rollouts = data.rollout.map(text => unpacked(text, 2));
function addRow(sums, {view, width, size}, row, factor) {
  const at = row * size, levels = at + 4 * (own + 1);
  for (let i = 0; i < own; i++) sums[i] += view.getFloat32(at + 4 * i, true) * factor;
  const unit = view.getFloat32(at + 4 * own, true) * factor / (width === 1 ? 255 : 65535);
  for (let i = 0; i < tokens - own; i++) {
    sums[own + i] += unit * (width === 1 ? view.getUint8(levels + i) : view.getUint16(levels + 2 * i, true));
  }
}
// The query's weights for all tokens, special tokens first.
function weightsOf(layer, head, query) {
  const sums = new Float32Array(tokens);
  if (head === ROLLOUT) addRow(sums, rollouts[layer], query, 1);
  else if (head < MEAN) addRow(sums, layers[layer], head * tokens + query, 1);
  else for (let h = 0; h < MEAN; h++) addRow(sums, layers[layer], h * tokens + query, 1 / MEAN);
  return sums;
}
const largest = weights => weights.reduce((a, b) => Math.max(a, b), 0);

const state = {layer: data.layers.length - 1, head: MEAN, query: 0, view: 'heat', scale: 'range', smooth: true, theme: 'auto'};
const headWord = head => head === MEAN ? 'mean' : head === ROLLOUT ? 'rollout' : head + 1;
const headName = head => head === MEAN ? 'mean of heads' : head === ROLLOUT ? 'rollout' : `head ${head + 1}`;
function readHash() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (wanted.layer) state.layer = Number(wanted.layer) - 1;
  if (wanted.head) state.head = {mean: MEAN, rollout: ROLLOUT}[wanted.head] ?? Number(wanted.head) - 1;
  if (wanted.query) state.query = Number(wanted.query);
  if (VIEWS.some(view => view[0] === wanted.view)) state.view = wanted.view;
  if (['range', 'max', 'same'].includes(wanted.scale)) state.scale = wanted.scale;
  if (wanted.smooth) state.smooth = wanted.smooth === '1';
  if (['light', 'dark'].includes(wanted.theme)) state.theme = wanted.theme;
}
function writeHash() {
  const shown = {layer: state.layer + 1, head: headWord(state.head)};
  if (state.query) shown.query = state.query;
  if (state.view !== 'heat') shown.view = state.view;
  if (state.scale !== 'range') shown.scale = state.scale;
  if (!state.smooth) shown.smooth = 0;
  if (state.theme !== 'auto') shown.theme = state.theme;
  history.replaceState(null, '', '#' + new URLSearchParams(shown));
}
const isDark = () => showsDark(state.theme);
const colours = colourTable(data.palette);
const rowOf = token => Math.floor((token - own) / columns), columnOf = token => (token - own) % columns;
const nameOf = token => token < own ? data.own[token] : `patch ${rowOf(token) + 1}, ${columnOf(token) + 1}`;

function choose(change) {
  Object.assign(state, change);
  state.layer = clamp(Math.trunc(state.layer) || 0, 0, layers.length - 1);
  state.head = clamp(Math.trunc(state.head) || 0, 0, ROLLOUT);
  state.query = clamp(Math.trunc(state.query) || 0, 0, tokens - 1);
  point(null);
  render();
  writeHash();
}

// Maps weights to a brightness of 0 to 1; `low` and `top` are the weights at its ends.
let same = {query: -1};
function sameForAll() {
  if (same.query === state.query) return same;
  same = {query: state.query, low: 0, top: 0};
  layers.forEach((_, layer) => {
    for (let head = 0; head < MEAN; head++) same.top = Math.max(same.top, largest(weightsOf(layer, head, state.query).subarray(own)));
  });
  return same;
}
function brightness(weights) {
  const patches = weights.subarray(own);
  const low = state.scale === 'range' ? patches.reduce((a, b) => Math.min(a, b)) : 0;
  const top = state.scale === 'same' ? sameForAll().top : largest(patches), span = top - low;
  const even = span <= 1e-4 * top;  // only rounding differences
  return {low, top, of: w => even ? 0.5 : clamp((w - low) / span, 0, 1)};
}

// A canvas with a pixel per patch, and a border of one pixel for smoothing.
function patchCanvas(weights, paint) {
  const canvas = document.createElement('canvas'), width = columns + 2, height = rows + 2;
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext('2d'), image = ctx.createImageData(width, height), {of} = brightness(weights);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const patch = clamp(y - 1, 0, rows - 1) * columns + clamp(x - 1, 0, columns - 1);
      image.data.set(paint(of(weights[own + patch])), 4 * (y * width + x));
    }
  }
  ctx.putImageData(image, 0, 0);
  return canvas;
}
// Stretches its patches over a rectangle.
function stretch(ctx, patches, width, height) {
  const across = width / columns, down = height / rows;
  ctx.save();
  ctx.beginPath();
  ctx.rect(0, 0, width, height);
  ctx.clip();
  ctx.imageSmoothingEnabled = state.smooth;
  ctx.imageSmoothingQuality = 'high';
  ctx.drawImage(patches, -across, -down, width + 2 * across, height + 2 * down);
  ctx.restore();
}

const photo = new Image();
let grey = null;  // the greyscale image under the heat
function greyPhoto() {
  if (grey) return grey;
  grey = document.createElement('canvas');
  grey.width = data.width;
  grey.height = data.height;
  const ctx = grey.getContext('2d');
  ctx.drawImage(photo, 0, 0);
  const image = ctx.getImageData(0, 0, data.width, data.height);
  for (let i = 0; i < image.data.length; i += 4) {
    image.data.fill(0.27 * image.data[i] + 0.64 * image.data[i + 1] + 0.09 * image.data[i + 2], i, i + 3);
  }
  ctx.putImageData(image, 0, 0);
  return grey;
}
const PAINTS = {
  heat: v => [...colours[Math.round(v * 255)], Math.round(255 * (0.5 + 0.3 * v))],
  light: v => [11, 10, 20, Math.round(255 * 0.9 * (1 - v))],
};
function drawView(ctx, weights, width, height) {
  ctx.imageSmoothingEnabled = data.width > width / 4 || state.smooth;
  ctx.imageSmoothingQuality = 'high';
  ctx.drawImage(state.view === 'heat' ? greyPhoto() : photo, 0, 0, width, height);
  if (PAINTS[state.view]) stretch(ctx, patchCanvas(weights, PAINTS[state.view]), width, height);
}

function renderLabels() {
  $('labels').replaceChildren(...data.labels.flatMap(([label, probability]) => {
    const share = element('div', 'share', ''), bar = document.createElement('i');
    bar.style.width = `${100 * probability}%`;
    share.append(bar);
    return [element('div', 'name', label), share, element('div', 'number', `${(100 * probability).toFixed(1)} %`)];
  }));
}

let overviewShows = '';
function renderOverview() {
  const box = $('overview'), shows = [state.query, state.scale, state.smooth].join();
  if (shows !== overviewShows) {
    overviewShows = shows;
    const size = clamp(Math.floor(540 / (ROLLOUT + 1)) - 5, 26, 64), shape = data.height / data.width;
    const width = shape > 1 ? size / shape : size, height = shape > 1 ? size : size * shape;
    box.style.gridTemplateColumns = `auto repeat(${ROLLOUT + 1}, auto)`;
    const cells = [document.createElement('span')], dots = devicePixelRatio || 1;
    for (let head = 0; head <= ROLLOUT; head++) cells.push(element('span', '', head === ROLLOUT && size < 40 ? 'roll' : headWord(head)));
    layers.forEach((_, layer) => {
      cells.push(element('span', 'row-name', layer + 1));
      for (let head = 0; head <= ROLLOUT; head++) {
        const button = document.createElement('button'), canvas = document.createElement('canvas');
        button.type = 'button';
        button.className = head < MEAN ? 'thumb' : 'thumb mean';
        button.dataset.at = `${layer},${head}`;
        button.setAttribute('aria-label', `Layer ${layer + 1}, ${headName(head)}`);
        canvas.width = Math.round(width * dots);
        canvas.height = Math.round(height * dots);
        canvas.style.width = `${width}px`;
        canvas.style.height = `${height}px`;
        const patches = patchCanvas(weightsOf(layer, head, state.query), v => [...colours[Math.round(v * 255)], 255]);
        stretch(canvas.getContext('2d'), patches, canvas.width, canvas.height);
        button.append(canvas);
        cells.push(button);
      }
    });
    box.replaceChildren(...cells);
  }
  markChosen(box, state);
}

const percent = w => `${(100 * w).toFixed(w < 0.00995 ? 2 : w < 0.0995 ? 1 : 0)} %`;
// Statistics of the map.
function statistics(weights) {
  let entropy = 0, strongest = own;
  weights.forEach((w, i) => {
    if (w > 0) entropy -= w * Math.log2(w);
    if (i >= own && w > weights[strongest]) strongest = i;
  });
  const stays = data.own.map((name, i) => `${percent(weights[i])} on ${name}`).join(', ');
  return `${stays} · most on ${nameOf(strongest)}: ${percent(weights[strongest])} · entropy ${entropy.toFixed(2)} bits of ` +
         Math.log2(tokens).toFixed(2);
}

let place = null, shown = null;  // the image's size on screen; the current weights
function renderStage() {
  const room = Math.max($('scroll').clientWidth - 12, 200), tall = Math.max(innerHeight - 320, 320);
  const scale = Math.min(room / data.width, tall / data.height), dots = devicePixelRatio || 1;
  place = {width: Math.round(data.width * scale), height: Math.round(data.height * scale)};
  const canvas = $('canvas'), ctx = canvas.getContext('2d');
  canvas.width = Math.round(place.width * dots);
  canvas.height = Math.round(place.height * dots);
  canvas.style.width = `${place.width}px`;
  canvas.style.height = `${place.height}px`;
  drawView(ctx, shown, canvas.width, canvas.height);
  box('query-box', state.query >= own ? state.query : null);
}
function box(id, token) {
  const across = place.width / columns, down = place.height / rows;
  setBox(id, token === null ? null : [columnOf(token) * across, rowOf(token) * down, across, down]);
}
const caption = () => `${nameOf(state.query)} · layer ${state.layer + 1} · ${headName(state.head)}`;
function render() {
  showTheme(isDark());
  shown = weightsOf(state.layer, state.head, state.query);
  segments($('views'), VIEWS, state.view, view => choose({view}));
  segments($('queries'), data.own.map((name, i) => [i, name]), state.query, query => choose({query}));
  fillSelect($('layer'), layers.map((_, i) => i + 1), state.layer);
  fillSelect($('head'), Array.from({length: ROLLOUT + 1}, (_, head) => headWord(head)), state.head);
  $('scale').value = state.scale;
  $('smooth').checked = state.smooth;
  renderOverview();
  $('what').textContent = caption();
  $('stats').textContent = statistics(shown);
  const legend = $('legend').getContext('2d'), {low, top} = brightness(shown);
  for (let i = 0; i < 256; i++) {
    const v = i / 255;
    legend.fillStyle = state.view === 'heat' ? `rgb(${colours[Math.round(v * 255)].join(' ')})` : `hsl(0 0% ${8 + 90 * v}%)`;
    legend.fillRect(i, 0, 1, 1);
  }
  document.querySelector('.legend').hidden = state.view === 'image';
  $('legend-low').textContent = percent(low);
  $('legend-top').textContent = percent(top);
  $('stage').setAttribute('aria-label', `${caption()}, ${rows} by ${columns} patches. Arrow keys move the query.`);
  renderStage();
}

// Highlights a patch, or nothing.
function point(token, x, y) {
  if (!place) return;
  box('cell-box', token);
  if (token === null) {
    $('tip').hidden = true;
    return;
  }
  tell([element('strong', '', shown[token].toFixed(4)), element('div', 'pair', `${nameOf(state.query)} → ${nameOf(token)}`),
        element('div', 'place', `row ${rowOf(token) + 1} of ${rows}, column ${columnOf(token) + 1} of ${columns}`)], x, y);
}
function under(event) {
  const area = $('canvas').getBoundingClientRect();
  const column = Math.floor((event.clientX - area.left) / area.width * columns);
  const row = Math.floor((event.clientY - area.top) / area.height * rows);
  return column >= 0 && column < columns && row >= 0 && row < rows ? own + row * columns + column : null;
}
const stage = $('stage');
stage.addEventListener('pointermove', event => point(under(event), event.clientX, event.clientY));
stage.addEventListener('pointerleave', () => point(null));
stage.addEventListener('click', event => {
  const token = under(event);
  if (token !== null) choose({query: token === state.query ? 0 : token});
});
stage.addEventListener('keydown', event => {
  if (event.key === 'Escape') return choose({query: 0});
  const arrow = ARROWS[event.key];
  if (!arrow) return;
  event.preventDefault();
  const at = state.query < own ? own + Math.floor(rows / 2) * columns + Math.floor(columns / 2) : state.query;
  const row = clamp(rowOf(at) + arrow[0], 0, rows - 1), column = clamp(columnOf(at) + arrow[1], 0, columns - 1);
  choose({query: state.query < own ? at : own + row * columns + column});
  $('live').textContent = `${caption()}. ${$('stats').textContent}`;
});
$('smooth').onchange = event => choose({smooth: event.target.checked});
$('save').onclick = () => {
  const canvas = document.createElement('canvas'), times = Math.max(1, Math.round(1200 / Math.max(data.width, data.height)));
  canvas.width = data.width * times;
  canvas.height = data.height * times;
  drawView(canvas.getContext('2d'), shown, canvas.width, canvas.height);
  savePng(canvas, caption());
};

listen({state, choose, isDark, readHash, redraw: () => { point(null); renderStage(); }});
showTitle(data);
renderLabels();
readHash();
photo.onload = () => choose({});
photo.src = data.image;
})();
