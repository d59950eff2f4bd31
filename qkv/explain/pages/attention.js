(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const pair = data.layers.some(layer => layer.part === 'cross');  // otherwise the model reads one text
const unit = data.tile > 1 ? `tiles of ${data.tile} tokens` : 'tokens';  // rows and columns of a model that reads one text
const PARTS = {
  encoder: {name: 'Encoder', rows: data.source, columns: data.source, rowName: pair ? 'source tokens' : unit,
            columnName: pair ? 'source tokens' : unit,
            about: pair ? 'Source tokens attend to source tokens.' : 'Tokens attend to all tokens.'},
  decoder: {name: 'Decoder', rows: data.target, columns: data.inputs, rowName: pair ? 'target tokens' : unit,
            columnName: pair ? 'target tokens so far' : unit,
            about: pair ? 'Target tokens attend to the target tokens so far.' : 'Tokens attend to themselves and preceding tokens.'},
  cross: {name: 'Cross', rows: data.target, columns: data.source, rowName: 'target tokens', columnName: 'source tokens',
          about: 'Target tokens attend to source tokens.'},
};
const layersOf = part => data.layers.filter(layer => layer.part === part).sort((a, b) => a.layer - b.layer);
const parts = Object.keys(PARTS).filter(part => layersOf(part).length > 0);

// One head's weights and labels; index `heads` is the mean of all heads.
const maps = new Map();
function mapOf(part, layer, head) {
  const key = `${part}/${layer}/${head}`;
  if (!maps.has(key)) {
    const heads = layersOf(part)[layer].heads, size = heads[0].length, weights = new Float32Array(size);
    const used = head === heads.length ? heads : [heads[head]];
    for (const values of used) for (let i = 0; i < size; i++) weights[i] += values[i] / 10000 / used.length;
    const {rows, columns} = PARTS[part];
    // The first token of a decoder can attend to one key only, with weight 1: the scale ignores it.
    const free = weights.subarray(part === 'decoder' && rows.length > 1 ? columns.length : 0);
    maps.set(key, {weights, rows: rows.length, columns: columns.length, keys: data.tile > 1 ? data.tokens : columns.length,
                   top: free.reduce((a, b) => Math.max(a, b), 0), statistics: statistics(layersOf(part)[layer].statistics, head),
                   part, second: pair || part === 'cross' ? null : data.second, aligned: part === 'cross' ? data.alignment : [],
                   specialRows: data.target_special, specialColumns: data.special});
  }
  return maps.get(key);
}

// A part opens at its head with the most information.
function opening(part) {
  const [layer, head] = data.opens[part];
  return {part, layer: layersOf(part).findIndex(one => one.layer === layer), head};
}
const defaultScale = data.tile > 1 ? 'root' : 'max';  // weights of tiles are small
const state = {...opening(parts[parts.length - 1]), view: 'matrix', scale: defaultScale, show: 'weights', theme: 'auto'};
function readHash() {
  const wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (parts.includes(wanted.part)) Object.assign(state, opening(wanted.part));
  if (wanted.layer) state.layer = Number(wanted.layer) - 1;
  if (wanted.head) state.head = wanted.head === 'mean' ? headCount() : Number(wanted.head) - 1;
  if (['matrix', 'lines'].includes(wanted.view)) state.view = wanted.view;
  if (['linear', 'root', 'max'].includes(wanted.scale)) state.scale = wanted.scale;
  if (wanted.show in MEASURES) state.show = wanted.show;
  if (['light', 'dark'].includes(wanted.theme)) state.theme = wanted.theme;
}
function writeHash() {
  const shown = {part: state.part, layer: state.layer + 1, head: state.head === headCount() ? 'mean' : state.head + 1};
  if (state.view !== 'matrix') shown.view = state.view;
  if (state.scale !== defaultScale) shown.scale = state.scale;
  if (state.show !== 'weights') shown.show = state.show;
  if (state.theme !== 'auto') shown.theme = state.theme;
  history.replaceState(null, '', '#' + new URLSearchParams(shown));
}
const headCount = () => layersOf(state.part)[0].heads.length;
const layerName = layer => layersOf(state.part)[layer].layer + 1;
const headName = head => head === headCount() ? 'mean of heads' : `head ${head + 1}`;
const currentMap = () => mapOf(state.part, state.layer, state.head);

const isDark = () => showsDark(state.theme);
function look() {
  const style = getComputedStyle(document.documentElement), ramp = data.palette[state.part][isDark() ? 'dark' : 'light'];
  const variable = name => style.getPropertyValue(name).trim();
  return {colours: colourTable(ramp), accent: hex(ramp[3]), ink: variable('--ink'), quiet: variable('--quiet'),
          card: variable('--card'), scale: state.scale};
}

function choose(change) {
  Object.assign(state, change);
  state.layer = clamp(state.layer || 0, 0, layersOf(state.part).length - 1);
  state.head = clamp(state.head || 0, 0, headCount());
  point(null);
  render();
  writeHash();
}

function renderControls() {
  segments($('parts'), parts.map(part => [part, PARTS[part].name]), state.part, part => choose(opening(part)));
  $('parts').hidden = parts.length < 2;
  segments($('views'), [['matrix', 'Matrix'], ['lines', 'Lines']], state.view, view => choose({view}));
  const layers = layersOf(state.part);
  fillSelect($('layer'), layers.map(layer => layer.layer + 1), state.layer);
  fillSelect($('head'), [...layers[0].heads.map((_, i) => i + 1), 'mean'], state.head);
  $('scale').value = state.scale;
  $('about').textContent = PARTS[state.part].about;
}

let overviewShows = '';
function renderOverview(style) {
  const box = $('overview'), layers = layersOf(state.part), heads = headCount();
  const measures = Object.keys(mapOf(state.part, 0, 0).statistics);
  if (!measures.includes(state.show)) state.show = 'weights';
  $('show').replaceChildren(new Option('weights', 'weights'), ...measures.map(name => new Option(MEASURES[name].name.toLowerCase(), name)));
  $('show').value = state.show;
  const size = clamp(Math.floor((Math.min(innerWidth, 490) - 90) / (heads + 1)) - 4, 22, 56);
  const shows = [state.part, state.scale, state.show, size, isDark()].join();
  if (shows !== overviewShows) {
    overviewShows = shows;
    box.style.gridTemplateColumns = `auto repeat(${heads + 1}, auto)`;
    const cells = [document.createElement('span')];
    const name = text => Object.assign(document.createElement('span'), {textContent: text});
    for (let head = 0; head <= heads; head++) cells.push(name(head < heads ? head + 1 : 'mean'));
    layers.forEach((layer, l) => {
      cells.push(Object.assign(name(layer.layer + 1), {className: 'row-name'}));
      for (let head = 0; head <= heads; head++) {
        const button = document.createElement('button'), canvas = document.createElement('canvas');
        button.type = 'button';
        button.className = head < heads ? 'thumb' : 'thumb mean';
        button.dataset.at = `${l},${head}`;
        button.setAttribute('aria-label', `Layer ${layer.layer + 1}, ${headName(head)}`);
        const map = mapOf(state.part, l, head);
        if (state.show === 'weights') {
          drawThumbnail(canvas, map, style.colours, state.scale, size);
          canvas.style.width = canvas.style.height = `${size}px`;
        } else {
          const value = map.statistics[state.show], {text, top} = MEASURES[state.show];
          drawNumber(canvas, value, value / top(map), style.colours, size);
          button.setAttribute('aria-label', `${button.getAttribute('aria-label')}: ${text(value, map)}`);
        }
        button.append(canvas);
        cells.push(button);
      }
    });
    box.replaceChildren(...cells);
  }
  markChosen(box, state);
}

// The statistics of a head (head_statistics.h), or their means over all heads.
function statistics(heads, head) {
  const used = head === heads.length ? heads : [heads[head]];
  return Object.fromEntries(Object.keys(MEASURES).filter(name => name in heads[0]).map(name =>
    [name, used.reduce((sum, one) => sum + one[name], 0) / used.length]));
}
const MEASURES = {
  information: {name: 'Information', text: (v, map) => `information ${v.toFixed(2)} bits of ${Math.log2(map.keys).toFixed(2)}`, top: map => Math.log2(map.keys)},
  entropy: {name: 'Entropy', text: (v, map) => `entropy ${v.toFixed(2)} bits of ${Math.log2(map.keys).toFixed(2)}`, top: map => Math.log2(map.keys)},
  largest: {name: 'Largest weight', text: v => `largest weight ${v.toFixed(2)}`, top: () => 1},
  distance: {name: 'Distance', text: v => `distance ${v.toFixed(1)} tokens`, top: map => map.keys / 3},
  first: {name: 'On the first token', text: v => `${v.toFixed(2)} on the first token`, top: () => 1},
  special: {name: 'On special tokens', text: v => `${v.toFixed(2)} on special tokens`, top: () => 1},
  across: {name: 'On the other text', text: v => `${v.toFixed(2)} on the other text`, top: () => 1},
};
function describe(map) {
  const list = Object.entries(map.statistics).map(([name, value]) => MEASURES[name].text(value, map)).join(' \u00b7 ');
  return state.head === headCount() ? `Means of heads: ${list}` : list[0].toUpperCase() + list.slice(1);
}

let place = null, focus = null;  // the current layout; the cell (or token) under the pointer
function renderStage(style) {
  const map = currentMap(), canvas = $('canvas'), ctx = canvas.getContext('2d'), dots = devicePixelRatio || 1;
  const {rows, columns} = PARTS[state.part], layOut = state.view === 'matrix' ? layOutMatrix : layOutLines;
  let room;
  for (const stacked of [false, true]) {  // a map that does not fit beside the overview is above it
    document.querySelector('main').classList.toggle('stacked', stacked);
    room = Math.max($('scroll').clientWidth - 12, 240);
    place = layOut(ctx, rows, columns, room);
    if (place.width <= room) break;
  }
  canvas.width = Math.ceil(place.width * dots);
  canvas.height = Math.ceil(place.height * dots);
  canvas.style.width = `${place.width}px`;
  canvas.style.height = `${place.height}px`;
  ctx.setTransform(dots, 0, 0, dots, 0, 0);
  draw(ctx, map, style, focus);
  // The labels of a map that scrolls stay.
  const labels = $('row-labels'), strip = Math.round((place.left - 2) * dots);
  labels.hidden = state.view !== 'matrix' || place.width <= room;
  if (labels.hidden) return;
  labels.width = strip;
  labels.height = canvas.height;
  labels.style.width = `${place.left - 2}px`;
  labels.style.height = `${place.height}px`;
  labels.style.marginBottom = `-${place.height}px`;
  labels.getContext('2d').drawImage(canvas, 0, 0);
}
function draw(ctx, map, style, at) {
  if (state.view === 'matrix') drawMatrix(ctx, map, style, place);
  else drawLines(ctx, map, style, place, at);
}

const caption = () => `${PARTS[state.part].name} attention · layer ${layerName(state.layer)} · ${headName(state.head)}`;
function render() {
  showTheme(isDark());
  const style = look(), map = currentMap(), {rowName, columnName} = PARTS[state.part];
  document.documentElement.style.setProperty('--accent', style.accent);
  renderControls();
  renderOverview(style);
  $('what').textContent = caption();
  $('stats').textContent = describe(map);
  const legend = $('legend').getContext('2d');
  style.colours.forEach((_, i) => {
    const [r, g, b] = style.colours[colourIndex(scaleOf(state.scale, 1), i / 255)];
    legend.fillStyle = `rgb(${r} ${g} ${b})`;
    legend.fillRect(i, 0, 1, 1);
  });
  $('legend-top').textContent = state.scale === 'linear' ? '1' : map.top.toFixed(2);
  document.querySelector('.legend').hidden = state.view !== 'matrix';
  $('axes').textContent = `${state.view === 'matrix' ? 'Down' : 'Left'}: ${rowName} (queries). ` +
    `${state.view === 'matrix' ? 'Across' : 'Right'}: ${columnName} (keys). The weights of a query sum to 1. ` +
    (data.tile > 1 ? 'A tile\u2019s weight for another: what its tokens give all tokens of the other, on average. ' : '') +
    (map.second ? 'Lines: where the second text begins. ' : '') +
    (map.aligned.length && state.view === 'matrix' ? 'Frames: the source token to which a target token is aligned. ' : '') +
    'Hover, or use Tab and the arrow keys, for the numbers.';
  $('stage').setAttribute('aria-label', `${caption()}, ${map.rows} queries by ${map.columns} keys. Arrow keys move.`);
  renderStage(style);
}

function strongest(map, {row, column}) {
  const list = row !== undefined ? Array.from({length: map.columns}, (_, j) => [j, map.weights[row * map.columns + j]])
                                 : Array.from({length: map.rows}, (_, i) => [i, map.weights[i * map.columns + column]]);
  return list.sort((a, b) => b[1] - a[1]).slice(0, 5);
}

// Highlights {row, column} of the matrix, {row} or {column} of the lines, or nothing.
function point(at, x, y) {
  const changed = JSON.stringify(at) !== JSON.stringify(focus);
  focus = at;
  if (state.view === 'lines' && changed && place) renderStage(look());
  const cell = at && state.view === 'matrix' ? place : null;
  setBox('row-band', cell && [0, cell.above + at.row * cell.cell, cell.left, cell.cell]);
  setBox('column-band', cell && [cell.left + at.column * cell.cell, 0, cell.cell, cell.above]);
  setBox('cell-box', cell && [cell.left + at.column * cell.cell - 2, cell.above + at.row * cell.cell - 2,
                              cell.cell - cell.gap + 4, cell.cell - cell.gap + 4]);
  if (!at) {
    $('tip').hidden = true;
    return;
  }
  const map = currentMap(), {rows, columns} = PARTS[state.part], lines = [];
  if (cell) {
    const w = map.weights[at.row * map.columns + at.column];
    lines.push(element('strong', '', w.toFixed(4)),
               element('div', 'pair', `${visible(rows[at.row])} → ${visible(columns[at.column])}`),
               element('div', 'place', `query ${at.row + 1} of ${map.rows}, key ${at.column + 1} of ${map.columns}`));
  } else {
    const query = at.row !== undefined, others = query ? columns : rows, table = element('table', '', '');
    for (const [k, w] of strongest(map, at)) {
      const line = table.insertRow();
      line.insertCell().textContent = w.toFixed(4);
      line.insertCell().textContent = visible(others[k]);
    }
    lines.push(element('div', 'pair', query ? `${visible(rows[at.row])} attends to` : `${visible(columns[at.column])} is attended to by`),
               table);
  }
  if (x === undefined) {  // by keyboard: next to the cell, and read aloud
    const box = $('stage').getBoundingClientRect();
    x = box.left + (cell ? cell.left + (at.column + 0.5) * cell.cell : place.left);
    y = box.top + (cell ? cell.above + (at.row + 0.5) * cell.cell : place.rowTop + ((at.row || 0) + 0.5) * place.step);
    const spoken = line => line.rows ? [...line.rows].map(row => [...row.cells].map(c => c.textContent).join(' ')) : line.textContent;
    $('live').textContent = lines.flatMap(spoken).join(', ');
  }
  tell(lines, x, y);
}

function under(event) {
  const box = $('canvas').getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const map = currentMap(), inside = (k, count) => k >= 0 && k < count;
  if (state.view === 'matrix') {
    const row = Math.floor((y - place.above) / place.cell), column = Math.floor((x - place.left) / place.cell);
    return inside(row, map.rows) && inside(column, map.columns) ? {row, column} : null;
  }
  if (x < place.left + place.span / 2) {
    const row = Math.floor((y - place.rowTop) / place.step);
    return inside(row, map.rows) ? {row} : null;
  }
  const column = Math.floor((y - place.columnTop) / place.step);
  return inside(column, map.columns) ? {column} : null;
}

const stage = $('stage');
stage.addEventListener('pointermove', event => point(under(event), event.clientX, event.clientY));
stage.addEventListener('pointerleave', () => point(null));
stage.addEventListener('blur', () => point(null));
stage.addEventListener('keydown', event => {
  if (event.key === 'Escape') point(null);
  const arrow = ARROWS[event.key], map = currentMap();
  if (!arrow) return;
  event.preventDefault();
  if (state.view === 'lines') {
    const row = focus?.row === undefined ? 0 : clamp(focus.row + arrow[0], 0, map.rows - 1);
    point({row});
  } else if (!focus) {
    point({row: 0, column: 0});
  } else {
    point({row: clamp(focus.row + arrow[0], 0, map.rows - 1), column: clamp(focus.column + arrow[1], 0, map.columns - 1)});
  }
});
$('save').onclick = () => {
  const canvas = document.createElement('canvas'), ctx = canvas.getContext('2d'), style = look(), margin = 24, top = 34;
  const factor = place.width > 1600 ? 2 : 3;
  canvas.width = Math.max(place.width, 360) * factor + 2 * margin * factor;
  canvas.height = (place.height + 2 * margin + top) * factor;
  ctx.scale(factor, factor);
  ctx.fillStyle = style.card;
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = style.ink;
  ctx.font = `600 16px ${FONT}`;
  ctx.textBaseline = 'top';
  ctx.fillText(caption(), margin, margin);
  ctx.translate(margin, margin + top);
  draw(ctx, currentMap(), style, null);
  savePng(canvas, caption());
};

$('show').onchange = event => choose({show: event.target.value});
listen({state, choose, isDark, readHash, redraw: () => { point(null); renderOverview(look()); renderStage(look()); }});
showTitle(data);
readHash();
choose({});
})();
