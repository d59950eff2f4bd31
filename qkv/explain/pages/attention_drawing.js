// Tokens as labels: visible control characters, shortened if long, with a faint word boundary symbol.
function visible(token) {
  const shown = token.replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5').replace(/[\u0000-\u001f\u007f-\u009f]/g, '\u00b7');
  return shown === '' ? '\u2205' : shown.trim() === '' ? '\u2423'.repeat(shown.length) : shown;
}
function label(token) {
  const letters = Array.from(visible(token));
  return letters.length > 20 ? letters.slice(0, 19).join('') + '\u2026' : letters.join('');
}
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
  const ctx = canvas.getContext('2d'), image = ctx.createImageData(width, height), scale = scaleOf(scaleName, tops);
  tops.forEach((w, k) => image.data.set([...colours[colourIndex(scale, w)], 255], 4 * k));
  ctx.putImageData(image, 0, 0);
}

// A number instead of a map, on its colour.
function drawNumber(canvas, value, share, colours, size) {
  const dots = devicePixelRatio || 1, ctx = canvas.getContext('2d');
  canvas.width = canvas.height = Math.round(size * dots);
  canvas.style.width = canvas.style.height = `${size}px`;
  ctx.scale(dots, dots);
  const [r, g, b] = colours[colourIndex(x => x, clamp(share, 0, 1))];
  ctx.fillStyle = `rgb(${r} ${g} ${b})`;
  ctx.fillRect(0, 0, size, size);
  ctx.font = `${clamp(Math.round(size * 0.34), 8, 14)}px ${FONT}`;
  ctx.textAlign = 'center';
  ctx.textBaseline = 'middle';
  ctx.fillStyle = inkOn(r, g, b);
  ctx.fillText(value >= 9.95 ? Math.round(value) : value.toFixed(size >= 30 && value < 1 ? 2 : 1), size / 2, size / 2 + 0.5);
}
const inkOn = (r, g, b) => 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#1b1f27' : '#ffffff';

// The layout of a heat map, in CSS pixels.
function layOutMatrix(ctx, rowLabels, columnLabels, room) {
  const n = rowLabels.length, m = columnLabels.length;
  const fontFor = cell => clamp(Math.round(cell * 0.62), 9, 15);
  let cell = 64, font, left, columnWidth, turned, above, right;
  for (; ; cell--) {
    font = fontFor(cell);
    ctx.font = `${font}px ${FONT}`;
    left = widest(ctx, rowLabels) + 12;
    columnWidth = widest(ctx, columnLabels);
    turned = columnWidth > cell - 6;
    above = turned ? columnWidth * 0.72 + font : font + 12;
    right = turned ? Math.max(columnWidth * 0.72 - cell / 2 + 6, 4) : 4;
    if (cell <= 11 || (left + m * cell + right <= room && n * cell <= (cell > 40 ? 600 : 1100))) break;
  }
  return {cell, font, left, above, turned, gap: cell >= 14 ? 1 : 0,
          width: Math.ceil(left + m * cell + right), height: Math.ceil(above + n * cell + 2)};
}

function drawMatrix(ctx, map, look, place) {
  const {cell, font, left, above, turned, gap} = place, {colours, ink, quiet} = look;
  const scale = scaleOf(look.scale, map.weights);
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
    ctx.strokeStyle = ink;
    ctx.lineWidth = 1.5;
    ctx.strokeRect(left + j * cell + 0.75, above + i * cell + 0.75, cell - gap - 1.5, cell - gap - 1.5);
  });
  ctx.font = `${font}px ${FONT}`;
  ctx.textBaseline = 'middle';
  map.rowLabels.forEach((text, i) => drawLabel(ctx, text, left - 8, above + (i + 0.5) * cell, 'right', ink, quiet));
  map.columnLabels.forEach((text, j) => {
    ctx.save();
    if (turned) {
      ctx.translate(left + (j + 0.5) * cell, above - 6);
      ctx.rotate(-Math.PI / 4);
      drawLabel(ctx, text, 0, 0, 'left', ink, quiet);
    } else {
      drawLabel(ctx, text, left + (j + 0.5) * cell, above - 6 - font / 2, 'center', ink, quiet);
    }
    ctx.restore();
  });
}

// The layout of the line view: queries on the left, keys on the right, a line for each weight.
function layOutLines(ctx, rowLabels, columnLabels, room) {
  const most = Math.max(rowLabels.length, columnLabels.length);
  const step = clamp(Math.floor(760 / most), 15, 30), font = clamp(Math.round(step * 0.62), 10, 15);
  ctx.font = `${font}px ${FONT}`;
  const left = widest(ctx, rowLabels) + 20, right = widest(ctx, columnLabels) + 20;
  const span = clamp(room - left - right, 160, 420), heading = font + 18;
  const height = most * step + heading + 8;
  return {step, font, left, span, width: Math.ceil(left + span + right), height: Math.ceil(height),
          rowTop: heading + (most - rowLabels.length) * step / 2,
          columnTop: heading + (most - columnLabels.length) * step / 2};
}

function drawLines(ctx, map, look, place, focus) {
  const {step, font, left, span, rowTop, columnTop} = place, {ink, quiet, accent} = look;
  const scale = scaleOf(look.scale, map.weights), end = left + span;
  ctx.strokeStyle = accent;
  for (let i = 0; i < map.rows; i++) {
    for (let j = 0; j < map.columns; j++) {
      const strength = clamp(scale(map.weights[i * map.columns + j]), 0, 1);
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
  column(map.rowLabels, rowTop, left - 10, 'right', focus?.row);
  column(map.columnLabels, columnTop, end + 10, 'left', focus?.column);
}
