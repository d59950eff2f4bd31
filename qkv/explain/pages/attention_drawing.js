// Tokens as labels: visible control characters, shortened if long, with a faint word boundary symbol.
function visible(token) {
  const shown = token.replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5').replace(/[\u0000-\u001f\u007f-\u009f]/g, '\u00b7');
  return shown === '' ? '\u2205' : shown.trim() === '' ? '\u2423'.repeat(shown.length) : shown;
}
function label(token, most) {
  const letters = Array.from(visible(token));
  return letters.length > most ? letters.slice(0, most - 1).join('') + '\u2026' : letters.join('');
}
// Labels that leave room for a map, in CSS pixels.
const labelsIn = (room, tokens) => tokens.map(token => label(token, room < 480 ? 12 : 20));
function drawLabel(ctx, text, x, y, align, ink, quiet) {
  const mark = text.length > 1 && '\u2581\u0120'.includes(text[0]) ? text[0] : '';
  const rest = text.slice(mark.length), width = ctx.measureText(text).width;
  const left = align === 'right' ? x - width : align === 'center' ? x - width / 2 : x;
  ctx.textAlign = 'left';
  if (mark) {
    ctx.fillStyle = quiet;
    ctx.globalAlpha = 0.45;
    ctx.fillText(mark, left, y);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = ink;
  ctx.fillText(rest, left + (mark ? ctx.measureText(mark).width : 0), y);
}
const widest = (ctx, labels) => labels.reduce((most, text) => Math.max(most, ctx.measureText(text).width), 0);

// A small map: a pixel per weight, or the maximum of several if there are more than `most` tokens.
function drawThumbnail(canvas, map, colours, scaleName, most) {
  const height = Math.min(map.rows, most), width = Math.min(map.columns, most);
  const tops = new Float32Array(width * height);
  for (let i = 0; i < map.rows; i++) {
    for (let j = 0; j < map.columns; j++) {
      const k = Math.floor(i * height / map.rows) * width + Math.floor(j * width / map.columns);
      tops[k] = Math.max(tops[k], map.weights[i * map.columns + j]);
    }
  }
  canvas.width = width;
  canvas.height = height;
  const ctx = canvas.getContext('2d'), image = ctx.createImageData(width, height), scale = scaleOf(scaleName, map.top);
  tops.forEach((w, k) => image.data.set([...colours[colourIndex(scale, w)], 255], 4 * k));
  ctx.putImageData(image, 0, 0);
}

// A number instead of a map, on its colour.
function drawNumber(canvas, value, share, colours, size) {
  const dots = devicePixelRatio || 1, ctx = canvas.getContext('2d');
  canvas.width = canvas.height = Math.round(size * dots);
  canvas.style.width = canvas.style.height = `${size}px`;
  ctx.scale(dots, dots);
  const [r, g, b] = colours[colourIndex(x => clamp(x, 0, 1), share)];
  ctx.fillStyle = `rgb(${r} ${g} ${b})`;
  ctx.fillRect(0, 0, size, size);
  ctx.font = `${clamp(Math.round(size * 0.34), 8, 14)}px ${FONT}`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = inkOn(r, g, b);
  ctx.fillText(value >= 9.95 ? Math.round(value) : value.toFixed(size >= 30 && value < 1 ? 2 : 1), size / 2, size / 2 + 0.5);
}
const inkOn = (r, g, b) => 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#1b1f27' : '#ffffff';

// The layout of a heat map, in CSS pixels. Labels have at least 11 pixels, and do not touch: columns' labels are level if
// they fit, else at an angle, and upright over narrow cells. A map that is wider than the room scrolls.
function layOutMatrix(ctx, rows, columns, room) {
  const rowLabels = labelsIn(room, rows), columnLabels = labelsIn(room, columns), n = rows.length, m = columns.length;
  let cell = 64, font, left, turn, above, right;
  for (; ; cell--) {
    font = clamp(Math.round(cell * 0.62), 11, 15);
    ctx.font = `${font}px ${FONT}`;
    left = Math.ceil(widest(ctx, rowLabels) + 12);
    const long = widest(ctx, columnLabels);
    turn = long <= cell - 6 ? 0 : cell >= 1.5 * font ? Math.PI / 4 : Math.PI / 2;
    above = Math.ceil(turn === 0 ? font + 12 : long * Math.sin(turn) + (turn < 1 ? font : 12));
    right = turn === 0 ? 4 : Math.max(long * Math.cos(turn) - cell / 2 + 8, 4);
    if (cell <= 12 || (left + m * cell + right <= room && n * cell <= (cell > 40 ? 600 : 1100))) break;
  }
  return {cell, font, left, above, turn, gap: cell >= 14 ? 1 : 0, rowLabels, columnLabels,
          width: Math.ceil(left + m * cell + right), height: Math.ceil(above + n * cell + 2)};
}
// Whether to frame the source token j that target token i is aligned to: not at a special token, not in an empty cell.
const framed = (map, i, j) => !map.specialRows[i] && !map.specialColumns[j] && map.weights[i * map.columns + j] >= 0.1 * map.top;

function drawMatrix(ctx, map, look, place) {
  const {cell, font, left, above, turn, gap} = place, {colours, ink, quiet} = look;
  const scale = scaleOf(look.scale, map.top);
  const numbers = cell >= 36;
  for (let i = 0; i < map.rows; i++) {
    for (let j = 0; j < map.columns; j++) {
      const w = map.weights[i * map.columns + j], index = colourIndex(scale, w), [r, g, b] = colours[index];
      ctx.fillStyle = `rgb(${r} ${g} ${b})`;
      ctx.fillRect(left + j * cell, above + i * cell, cell - gap, cell - gap);
      if (numbers && w >= 0.005) {
        ctx.font = `${clamp(Math.round(cell * 0.27), 9, 15)}px ${FONT}`;
        ctx.textBaseline = 'middle';
        ctx.textAlign = 'center';
        ctx.fillStyle = inkOn(r, g, b);
        ctx.globalAlpha = w < 0.05 ? 0.7 : 1;
        ctx.fillText(w >= 0.995 ? '1.0' : w.toFixed(2).slice(1), left + (j + 0.5) * cell, above + (i + 0.53) * cell);
        ctx.globalAlpha = 1;
      }
    }
  }
  // The boundary of two texts, and the source token that each target token is aligned to.
  if (map.second) {
    const x = left + map.second * cell - gap / 2, y = above + map.second * cell - gap / 2;
    ctx.fillStyle = ink;
    ctx.fillRect(x - 0.75, above, 1.5, map.rows * cell - gap);
    ctx.fillRect(left, y - 0.75, map.columns * cell - gap, 1.5);
  }
  map.aligned.forEach((j, i) => {
    if (!framed(map, i, j)) return;
    ctx.strokeStyle = ink;
    const line = ctx.lineWidth = cell < 16 ? 1 : 1.5;
    ctx.strokeRect(left + j * cell + line / 2, above + i * cell + line / 2, cell - gap - line, cell - gap - line);
  });
  ctx.font = `${font}px ${FONT}`;
  ctx.textBaseline = 'middle';
  place.rowLabels.forEach((text, i) => drawLabel(ctx, text, left - 8, above + (i + 0.5) * cell, 'right', ink, quiet));
  place.columnLabels.forEach((text, j) => {
    ctx.save();
    if (turn) {
      ctx.translate(left + (j + 0.5) * cell, above - 6);
      ctx.rotate(-turn);
      drawLabel(ctx, text, 0, 0, 'left', ink, quiet);
    } else {
      drawLabel(ctx, text, left + (j + 0.5) * cell, above - 6 - font / 2, 'center', ink, quiet);
    }
    ctx.restore();
  });
}

// The layout of the line view: queries on the left, keys on the right, a line for each weight.
function layOutLines(ctx, rows, columns, room) {
  const rowLabels = labelsIn(room, rows), columnLabels = labelsIn(room, columns), most = Math.max(rows.length, columns.length);
  const step = clamp(Math.floor(760 / most), 16, 30), font = clamp(Math.round(step * 0.62), 11, 15);
  ctx.font = `${font}px ${FONT}`;
  const left = widest(ctx, rowLabels) + 20, right = widest(ctx, columnLabels) + 20;
  const span = clamp(room - left - right, 110, 420), heading = font + 18;
  const height = most * step + heading + 8;
  return {step, font, left, span, rowLabels, columnLabels, width: Math.ceil(left + span + right), height: Math.ceil(height),
          rowTop: heading + (most - rows.length) * step / 2,
          columnTop: heading + (most - columns.length) * step / 2};
}

function drawLines(ctx, map, look, place, focus) {
  const {step, font, left, span, rowTop, columnTop} = place, {ink, quiet, accent} = look;
  const scale = scaleOf(look.scale, map.top), end = left + span;
  ctx.strokeStyle = accent;
  for (let i = 0; i < map.rows; i++) {
    for (let j = 0; j < map.columns; j++) {
      const strength = scale(map.weights[i * map.columns + j]);
      const chosen = !focus || focus.row === i || focus.column === j;
      if (strength < 0.01 || !chosen) continue;
      const y0 = rowTop + (i + 0.5) * step, y1 = columnTop + (j + 0.5) * step;
      ctx.globalAlpha = 0.08 + 0.92 * strength;
      ctx.lineWidth = 0.6 + 3.4 * strength;
      ctx.beginPath();
      ctx.moveTo(left, y0);
      ctx.bezierCurveTo(left + span * 0.45, y0, end - span * 0.45, y1, end, y1);
      ctx.stroke();
    }
  }
  ctx.globalAlpha = 1;
  ctx.textBaseline = 'middle';
  ctx.font = `${font - 2}px ${FONT}`;
  drawLabel(ctx, 'queries', left - 10, font / 2 + 2, 'right', quiet, quiet);
  drawLabel(ctx, 'keys', end + 10, font / 2 + 2, 'left', quiet, quiet);
  const column = (labels, top, x, align, chosen) => labels.forEach((text, k) => {
    ctx.font = `${chosen === k ? 'bold ' : ''}${font}px ${FONT}`;
    drawLabel(ctx, text, x, top + (k + 0.5) * step, align, ink, quiet);
  });
  column(place.rowLabels, rowTop, left - 10, 'right', focus?.row);
  column(place.columnLabels, columnTop, end + 10, 'left', focus?.column);
}
