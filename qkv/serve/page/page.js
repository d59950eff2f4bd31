'use strict';
(() => {
const $ = id => document.getElementById(id);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const SVG = 'http://www.w3.org/2000/svg';

// Elements hold text as text: nothing that a user or a model wrote is ever parsed as markup.
function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...content);
  return made;
}
function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}
const percent = p => p > 0 && p < 0.0005 ? '< 0.1 %' : `${(100 * p).toFixed(p < 0.0995 ? 1 : 0)} %`;
const number = (x, digits) => x.toFixed(digits).replace('-', '\u2212');
const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
const weight = (made, w) => { made.style.setProperty('--w', clamp(w || 0, 0, 1).toFixed(3)); return made; };
const say = text => { $('live').textContent = text; };
function show(id, shown = true) { $(id).hidden = !shown; }

// The theme, the system's unless chosen here.
const THEME = 'qkv-theme', systemDark = matchMedia('(prefers-color-scheme: dark)');
function showTheme() {
  const theme = localStorage.getItem(THEME) || '', dark = theme ? theme === 'dark' : systemDark.matches;
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = dark ? 'Light' : 'Dark';
  $('theme').onclick = () => {
    localStorage.setItem(THEME, dark ? 'light' : 'dark');
    showTheme();
  };
}
systemDark.addEventListener('change', showTheme);
showTheme();

// A reload keeps what was written in this tab.
for (const field of document.querySelectorAll('textarea, .knobs input, #read-question, #image-own, #translate-beam, #speech-translate, #speech-words')) {
  const name = `qkv-${field.id}`, kept = sessionStorage.getItem(name), checkbox = field.type === 'checkbox';
  if (kept !== null && checkbox) field.checked = kept === 'true';
  else if (kept !== null) field.value = kept;
  field.addEventListener('input', () => sessionStorage.setItem(name, checkbox ? field.checked : field.value));
}

// ---- The server ----------------------------------------------------------------------------------------------------

class ServerError extends Error {}
const KEY = 'qkv-key';
const headers = () => {
  const key = sessionStorage.getItem(KEY);
  return key ? {Authorization: `Bearer ${key}`} : {};
};

let asking = null;  // one dialog for all calls that wait for a key
function askKey() {
  asking = asking || new Promise(answer => {
    const dialog = $('key-dialog'), had = sessionStorage.getItem(KEY);
    $('key-note').textContent = had ? 'The server did not accept this key.'
                                    : 'This server asks for a key. It is kept until you close the tab.';
    $('key').value = '';
    let given = false;
    $('key-form').onsubmit = () => {
      given = $('key').value.trim() !== '';
      if (given) sessionStorage.setItem(KEY, $('key').value.trim());
      if (given) poll();
    };
    $('key-cancel').onclick = () => dialog.close();
    dialog.onclose = () => { asking = null; answer(given); };
    dialog.showModal();
  });
  return asking;
}

async function request(path, options) {
  for (;;) {
    let reply;
    try {
      reply = await fetch(path, {...options, headers: {...options.headers, ...headers()}});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      throw new ServerError('The server does not answer.');
    }
    if (reply.ok) return reply;
    if (reply.status === 401 && await askKey()) continue;
    const message = await reply.json().then(body => body.error.message, () => null) || `The server answered with status ${reply.status}.`;
    throw new ServerError(reply.status === 413 ? `${message}. The server takes more if it is started with --body-bytes.` : message);
  }
}
const post = (path, body, signal) => request(path, body instanceof FormData ? {method: 'POST', body, signal} :
  {method: 'POST', body: JSON.stringify(body), headers: {'Content-Type': 'application/json'}, signal});
const ask = async (path, body, signal) => (await post(path, body, signal)).json();

// Calls `take` with the JSON of each server-sent event.
async function listen(path, body, signal, take) {
  const reader = (await post(path, body, signal)).body.getReader(), decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const {value, done} = await reader.read();
    rest += done ? decoder.decode() + '\n' : decoder.decode(value, {stream: true});
    const rows = rest.split(/\r?\n/);
    rest = rows.pop();
    for (const row of rows) {
      if (!row.startsWith('data:')) continue;
      const data = row.slice(5).trim();
      if (data === '[DONE]') return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.message || String(event.error));
      take(event);
    }
    if (done) return;
  }
}

// A panel's current request; a new one ends it.
const running = {};
function begin(name) {
  running[name]?.abort();
  running[name] = new AbortController();
  return running[name].signal;
}
// Runs a panel's work, with its progress and its errors in the panel.
async function work(name, note, task) {
  const signal = begin(name), card = $(`${name}-card`);
  card.classList.add('busy');
  card.setAttribute('aria-busy', 'true');
  show(`${name}-error`, false);
  if (note) $(`${name}-stage`).textContent = note;
  if (card.getBoundingClientRect().top > innerHeight - 140) {  // on a phone, results come below the form
    card.scrollIntoView({block: 'start', behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
  }
  try {
    await task(signal);
  } catch (error) {
    if (!signal.aborted) fail(name, error);
    else if (running[name].signal === signal) $(`${name}-stage`).textContent = 'Stopped';
  } finally {
    if (running[name].signal === signal) {
      card.classList.remove('busy');
      card.removeAttribute('aria-busy');
    }
  }
}
function fail(name, error) {
  $(`${name}-stage`).textContent = '';
  $(`${name}-error`).textContent = error.message;
  show(`${name}-error`);
  if (!(error instanceof ServerError)) console.warn(error);
}

// ---- Tokens and words ----------------------------------------------------------------------------------------------

const MARKER = /^(<\/?(s|pad|bos|eos|cls|sep|start|end)>|<\|[^|]*\|>|\[(CLS|SEP|PAD|BOS|EOS)\]|>>[\w-]+<<)$/i;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

// GPT-2's letters for bytes.
const byteOf = new Map();
for (let byte = 0, next = 256; byte < 256; byte++) {
  const printed = byte > 32 && byte < 127 || byte > 160 && byte !== 173;
  byteOf.set(String.fromCodePoint(printed ? byte : next++), byte);
}
function textOfBytes(letters) {
  const bytes = [];
  for (const letter of letters) {
    if (byteOf.has(letter)) bytes.push(byteOf.get(letter));
    else bytes.push(...new TextEncoder().encode(letter));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

// Subword pieces merged to words: {text, before (a space or none), tokens, special}.
function wordsOf(tokens) {
  const style = ['\u2581', '\u0120'].find(mark => tokens.some(token => token.startsWith(mark))) ||
                (tokens.some(token => token.startsWith('##')) ? '##' : tokens.some(token => token.endsWith('@@')) ? '@@' : '');
  const words = [];
  let open = false;  // whether the next piece may continue the last word
  tokens.forEach((token, i) => {
    if (MARKER.test(token)) {
      words.push({text: token, before: ' ', tokens: [i], special: true});
      open = false;
      return;
    }
    let text = token, starts = true, before = ' ';
    if (style === '\u2581' || style === '\u0120') {
      starts = token.startsWith(style);
      if (starts) text = token.slice(1);
      else if (!open || words.length && UNSPACED.test(words[words.length - 1].text + text)) { starts = true; before = ''; }
    } else if (style === '##') {
      starts = !token.startsWith('##') || !open;
      text = token.replace(/^##/, '');
    } else if (style === '@@') {
      starts = !(words.length && words[words.length - 1].more);
      text = token.replace(/@@$/, '');
    }
    if (starts) words.push({text, before: words.length ? before : '', tokens: [i]});
    else {
      words[words.length - 1].text += text;
      words[words.length - 1].tokens.push(i);
    }
    words[words.length - 1].more = token.endsWith('@@');
    open = true;
  });
  if (style === '\u0120') for (const word of words) if (!word.special) word.text = textOfBytes(word.text);
  return words.filter(word => word.text !== '');
}
const plainWords = text => text.split(/(?<=\s)(?=\S)/).filter(part => part.trim()).map((part, i, all) => (
  {text: part.trim(), before: i === 0 ? '' : /\s$/.test(all[i - 1]) ? ' ' : '', tokens: []}));
const joined = words => words.map(word => word.before + word.text).join('');

// The words of a text with the pieces it consists of. The text decides: pieces may be normalised.
function wordsOfText(text, tokens) {
  const words = wordsOf(tokens || []), own = words.filter(word => !word.special), split = plainWords(text);
  if (joined(own) === text.trim()) return own;
  if (own.length === split.length) return own.map((word, i) => ({...word, text: split[i].text, before: split[i].before}));
  return split;
}

const visible = token => token.replace(/\n/g, '\u23ce').replace(/\t/g, '\u21e5').replace(/^ +| +$/g, spaces => '\u2423'.repeat(spaces.length))
  .replace(/[\u0000-\u001f\u007f-\u009f]/g, '\u00b7') || '\u2205';
function short(token, most = 24) {
  const letters = Array.from(visible(token));
  return letters.length > most ? letters.slice(0, most - 1).join('') + '\u2026' : letters.join('');
}

// ---- Tooltip, arrow keys -------------------------------------------------------------------------------------------

let tipOwner = null;
function tell(owner, lines) {
  const tip = $('tip'), at = owner.getClientRects()[0] || owner.getBoundingClientRect();
  tip.replaceChildren(...lines);
  tip.hidden = false;
  tipOwner = owner;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${clamp(at.left + at.width / 2 - box.width / 2, 8, Math.max(document.documentElement.clientWidth - box.width - 8, 8))}px`;
  tip.style.top = `${at.bottom + 8 + box.height > innerHeight && at.top > box.height + 10 ? at.top - box.height - 8 : at.bottom + 8}px`;
}
function hush() { show('tip', false); tipOwner = null; }
addEventListener('scroll', hush, {passive: true, capture: true});
addEventListener('keydown', event => { if (event.key === 'Escape') hush(); });

// One tab stop for many elements; the arrow keys move between them. `point(element or null)` follows focus and pointer.
function rove(box, selector, point) {
  const all = () => [...box.querySelectorAll(selector)];
  box.addEventListener('keydown', event => {
    const here = event.target.closest?.(selector);
    if (!here || event.ctrlKey || event.metaKey || event.altKey) return;
    const list = all(), at = list.indexOf(here), ahead = getComputedStyle(here).direction === 'rtl' ? -1 : 1;
    const to = {ArrowRight: at + ahead, ArrowLeft: at - ahead, ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: list.length - 1}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    list[clamp(to, 0, list.length - 1)].focus();
  });
  box.addEventListener('focusin', event => {
    const here = event.target.closest(selector);
    if (!here) return;
    for (const other of box.querySelectorAll(`${selector}[tabindex="0"]`)) other.setAttribute('tabindex', '-1');
    here.setAttribute('tabindex', '0');
    here.setAttribute('aria-describedby', 'tip');
    point(here);
  });
  box.addEventListener('focusout', () => point(null));
  box.addEventListener('pointerover', event => { const here = event.target.closest(selector); if (here) point(here); });
  box.addEventListener('pointerout', event => { if (event.target.closest(selector)) point(null); });
}
function segments(box, options, chosen, pick) {
  box.replaceChildren(...options.map(([value, text]) => {
    const button = element('button', '', text);
    button.type = 'button';
    button.setAttribute('aria-pressed', value === chosen);
    button.onclick = () => {
      pick(value);
      [...box.children][options.findIndex(option => option[0] === value)]?.focus();
    };
    return button;
  }));
}
function bars(labels) {
  return element('ul', 'labels', ...labels.map(({label, probability, sentence}) => {
    const item = element('li', '', element('bdi', 'name', label), element('span', 'share', weight(element('i'), probability)),
                         element('span', 'number', percent(probability)));
    if (sentence) item.append(sentence);
    return item;
  }));
}
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say('Copied.');
    return true;
  } catch { return false; }
}
function copyButton(id, text) {
  $(id).onclick = async () => {
    $(id).textContent = await copy(text()) ? 'Copied' : 'Not allowed';
    setTimeout(() => { $(id).textContent = 'Copy'; }, 1500);
  };
}
function dropFiles(card, open) {
  for (const kind of ['dragenter', 'dragover']) card.addEventListener(kind, event => { event.preventDefault(); card.classList.add('over'); });
  for (const kind of ['dragleave', 'drop']) card.addEventListener(kind, event => { event.preventDefault(); card.classList.remove('over'); });
  card.addEventListener('drop', event => open(event.dataTransfer.files[0]));
}

// ---- Models and tabs -----------------------------------------------------------------------------------------------

const TABS = [
  {id: 'translate', name: 'Translate', tasks: ['translate']},
  {id: 'chat', name: 'Chat', tasks: ['chat']},
  {id: 'write', name: 'Write', tasks: ['generate']},
  {id: 'embed', name: 'Embed', tasks: ['embed']},
  {id: 'read', name: 'Classify', tasks: ['classify', 'tag', 'answer', 'fill-mask']},
  {id: 'speech', name: 'Speech', tasks: ['transcribe']},
  {id: 'image', name: 'Image', tasks: ['image']},
];
const HASHES = {translate: 'translate', chat: 'chat', generate: 'write', embed: 'embed', classify: 'classify', tag: 'tag', answer: 'answer', 'fill-mask': 'fill-mask', transcribe: 'speech', image: 'image'};
let models = [], task = '';
const chosen = {};  // the model of each task
const can = (model, wanted) => wanted === 'image' ? model.kind.startsWith('image') && ['classify-image', 'attention-image'].some(one => model.tasks.includes(one))
                                                   : model.tasks.includes(wanted);
const modelsFor = wanted => models.filter(model => can(model, wanted));
const tabOf = wanted => TABS.find(tab => tab.tasks.includes(wanted));
const tasksOf = tab => tab.tasks.filter(wanted => modelsFor(wanted).length > 0);
const modelOf = wanted => models.find(model => model.id === chosen[wanted]);

function openTask(wanted, focus) {
  task = wanted;
  const tab = tabOf(task), list = modelsFor(task);
  const first = task === 'embed' && list.find(model => model.sentence_transformers) || list[0];
  chosen[task] = modelOf(task) ? chosen[task] : first.id;
  $('model').replaceChildren(...list.map(model => new Option(model.id, model.id, false, model.id === chosen[task])));
  for (const button of $('tabs').children) {
    const here = button.id === `tab-${tab.id}`;
    button.setAttribute('aria-selected', here);
    button.tabIndex = here ? 0 : -1;
    show(button.getAttribute('aria-controls'), here);
    if (here && focus) button.focus();
  }
  showTab();
  closeMenu(false);
  hush();
  if (tab.id !== 'speech') $('speech-player').pause();
  if (tab.id === 'read') openRead();
  if (tab.id === 'image') {
    show('image-form', readsLabels());
    drawImage();
  }
  if (tab.id === 'chat') showChat();
  document.title = `${tab.name} \u00b7 qkv`;
  if (location.hash.slice(1) !== HASHES[task]) history.replaceState(null, '', `#${HASHES[task]}`);
}
function showTab() {  // on a phone, tabs scroll
  const tabs = $('tabs'), here = tabs.querySelector('[aria-selected="true"]');
  if (here) tabs.scrollLeft = clamp(tabs.scrollLeft, here.offsetLeft + here.offsetWidth + 24 - tabs.clientWidth, here.offsetLeft - 24);
}
addEventListener('resize', showTab);
function openHash() {
  const hash = location.hash.slice(1).toLowerCase();
  const wanted = Object.keys(HASHES).find(one => one === hash || HASHES[one] === hash);
  if (wanted && modelsFor(wanted).length) openTask(wanted);
  else if (!task) openTask(tasksOf(TABS.find(tab => tasksOf(tab).length))[0]);
}
function showTabs() {
  $('tabs').replaceChildren(...TABS.filter(tab => tasksOf(tab).length).map(tab => {
    const button = element('button', '', tab.name);
    Object.assign(button, {type: 'button', id: `tab-${tab.id}`});
    button.setAttribute('role', 'tab');
    button.setAttribute('aria-controls', `panel-${tab.id}`);
    button.onclick = () => openTask(tab.tasks.includes(task) ? task : tasksOf(tab)[0]);
    return button;
  }));
}
$('tabs').addEventListener('keydown', event => {
  const list = [...$('tabs').children], at = list.indexOf(event.target), n = list.length;
  const to = {ArrowRight: (at + 1) % n, ArrowLeft: (at + n - 1) % n, Home: 0, End: n - 1}[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  const tab = TABS.find(one => `tab-${one.id}` === list[to].id);
  openTask(tab.tasks.includes(task) ? task : tasksOf(tab)[0], true);
});
$('model').onchange = event => {
  chosen[task] = event.target.value;
  if (task in READ) openRead();
  if (task === 'chat') showChat();
  if (task === 'image') {
    show('image-form', readsLabels());
    if (image.file) openImage(image.file);
  }
};
addEventListener('hashchange', openHash);

async function start() {
  show('start-again', false);
  document.querySelector('.spinner').hidden = false;
  $('start-text').textContent = 'Loading models';
  try {
    const list = await (await request('/v1/models', {})).json();
    models = list.data.map(model => ({...model, tasks: model.tasks || []}));
  } catch (error) {
    return startEmpty(error.message);
  }
  if (!models.length) return startEmpty('No model is loaded. Start the server with one: qkv serve MODEL.');
  showTabs();
  if (!$('tabs').children.length) return startEmpty(`No panel here fits what is loaded: ${models.map(model => model.id).join(', ')}.`);
  show('start', false);
  show('tabs');
  show('picker');
  openHash();
}
function startEmpty(text) {
  document.querySelector('.spinner').hidden = true;
  $('start-text').textContent = text;
  show('start-again');
}
$('start-again').onclick = start;

for (const area of document.querySelectorAll('textarea')) {
  area.addEventListener('keydown', event => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) area.form.requestSubmit();
  });
}
const onSubmit = (name, run) => { $(`${name}-form`).onsubmit = event => { event.preventDefault(); run(); }; };

// ---- Translate -----------------------------------------------------------------------------------------------------

let lines = [], at = 0;  // the translated lines; the one whose n-best list and trace are shown
let translator = null;   // their model
const beamWidth = () => Number($('translate-beam').value);

function translate() {
  const texts = $('translate-text').value.split('\n').map(text => text.trim()).filter(text => text);
  closeMenu(false);
  if (!texts.length) { $('translate-text').focus(); return; }
  translator = modelOf('translate');
  lines = texts.map(text => ({text, words: [], prefix: '', hypotheses: [], shown: 0}));
  at = 0;
  show('translate-empty', false);
  show('translate-foot', false);
  for (const id of ['translate-nbest-card', 'translate-tree-card', 'translate-copy', 'translate-reset']) show(id, false);
  $('translate-lines').classList.toggle('many', lines.length > 1);
  $('translate-lines').replaceChildren(...lines.map(lineElement));
  const beam = beamWidth(), model = translator;
  work('translate', 'Greedy search', async signal => {
    for (const line of lines) await streamLine(line, model, signal);
    if (beam > 1) {
      $('translate-stage').textContent = 'Beam search';
      const reply = await ask('/v1/translate', {model: model.id, text: lines.length > 1 ? texts : texts[0], beam, nbest: beam, scores: true, trace: true,
                                                alignment: true}, signal);
      reply.translations.forEach((translation, i) => takeTranslation(lines[i], translation));
    }
    finishTranslation(beam);
  }).then(() => {
    if (!$('translate-error').hidden && !lines.some(line => line.translation)) $('translate-lines').replaceChildren();
  });
}
function finishTranslation(beam) {
  $('translate-stage').textContent = beam > 1 ? `Beam search, ${beam} wide` : 'Greedy search';
  show('translate-copy', lines.some(line => line.words.length));
  showEvidence();
  say(lines.map(line => line.error || line.translation).join('\n'));
}
async function streamLine(line, model, signal) {
  const out = line.box.querySelector('.target-words');
  out.classList.add('caret');
  try {
    await listen('/v1/translate', {model: model.id, text: line.text, beam: 1, stream: true, scores: true, alignment: true}, signal, event => {
      if (event.text) out.append(element('span', 'new', event.text));
      if (event.translations) takeTranslation(line, event.translations[0]);
    });
  } finally {
    out.classList.remove('caret');
  }
}
function takeTranslation(line, translation) {
  line.attention = null;
  line.error = translation.error && (translation.error.message || translation.error);
  line.truncated = translation.truncated;
  line.sourceTokens = translation.source_tokens || line.sourceTokens;
  line.hypotheses = translation.hypotheses || [];
  line.trace = translation.trace;
  line.translation = translation.translation || '';
  showHypothesis(line, 0);
}
function showHypothesis(line, index) {
  line.shown = index;
  line.attention = null;
  const hypothesis = line.hypotheses[index] || {text: line.translation};
  line.translation = hypothesis.text ?? line.translation;
  line.words = line.error ? [] : wordsOfText(line.translation, hypothesis.tokens);
  line.sourceWords = line.sourceTokens ? wordsOf(line.sourceTokens) : plainWords(line.text);
  drawLine(line);
}

function lineElement(line) {
  line.box = element('div', 'line-pair', Object.assign(element('div', 'source-words'), {dir: 'auto'}),
                     Object.assign(element('div', 'target-words'), {dir: 'auto'}));
  const out = line.box.lastChild;
  out.setAttribute('role', 'group');
  out.setAttribute('aria-label', 'Translation; arrow keys move from word to word, Enter shows alternatives');
  line.sourceWords = plainWords(line.text);
  drawSource(line);
  rove(out, '.word', word => attend(line, word));
  const open = event => { const word = event.target.closest('.word'); if (word) { event.preventDefault(); openMenu(line, word); } };
  out.addEventListener('click', open);
  out.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') open(event); });
  out.addEventListener('focusin', () => selectLine(line));
  return line.box;
}
function drawSource(line) {
  line.box.firstChild.replaceChildren(...line.sourceWords.flatMap(word => [word.before, element('span', word.special ? 'special' : '', word.text)]));
}
function drawLine(line) {
  drawSource(line);
  const out = line.box.lastChild, forced = line.prefix.length;
  if (line.error) {
    out.replaceChildren(element('div', 'error', line.error));
    return;
  }
  let length = 0;
  out.replaceChildren(...line.words.flatMap((word, i) => {
    const made = element('span', 'word', word.text);
    length += word.before.length + word.text.length;
    if (forced && length <= forced) made.classList.add('forced');
    made.dataset.at = i;
    made.setAttribute('role', 'button');
    made.setAttribute('aria-haspopup', 'menu');
    made.setAttribute('aria-expanded', 'false');
    made.tabIndex = i === 0 ? 0 : -1;
    return [word.before, made];
  }));
  if (!line.words.length) out.append(element('span', 'quiet', 'The model ended without a word.'));
  show('translate-reset', lines.some(one => one.prefix));
}
function selectLine(line) {
  if (lines[at] === line && line.box.classList.contains('chosen')) return;
  at = lines.indexOf(line);
  showEvidence();
}

// The attention of the shown translation, fetched when a word is first pointed at.
const attends = () => translator?.tasks.includes('attention');
function attentionOf(line) {
  if (!attends()) return null;
  if (!line.attention) {
    const state = line.attention = {};
    ask('/v1/attention', {model: translator.id, text: line.text, target: line.translation, part: 'cross'}, begin('attention')).then(reply => {
      const layers = reply.layers.filter(layer => layer.part === 'cross'), cross = layers.map(layer => layer.heads);
      if (!cross.length) return;
      Object.assign(state, {cross, source: wordsOf(reply.source_tokens), target: wordsOf(reply.target_tokens).filter(word => !word.special)});
      fillLayers(layers);
      if (line.attention === state && line.sourceWords.length !== state.source.length) {
        line.sourceWords = state.source;
        drawSource(line);
      }
      if (line.attention === state && line.pointed?.isConnected) attend(line, line.pointed);
    }, error => { if (line.attention === state && error.name === 'AbortError') line.attention = null; });
  }
  return line.attention.cross ? line.attention : null;
}
function fillLayers(layers) {
  const information = layers.map(layer => layer.statistics.reduce((sum, head) => sum + head.information, 0));
  if ($('translate-layer').children.length !== layers.length) {
    $('translate-layer').replaceChildren(...layers.map((_, i) => new Option(`layer ${i + 1}, mean of heads`, i)));
    $('translate-layer').value = information.indexOf(Math.max(...information));  // it aligns best
  }
  show('translate-foot');
}
// The weight of each source word for a target word, which sum to at most 1.
function sourceWeights(line, index) {
  const word = line.words[index], attention = attentionOf(line), sums = new Map(line.sourceWords.map((_, i) => [i, 0]));
  const pieces = attention && (attention.target.length === line.words.length ? attention.target[index].tokens : word.tokens);
  if (attention && pieces.length && attention.source.length === line.sourceWords.length) {
    const heads = attention.cross[Number($('translate-layer').value) || 0];
    attention.source.forEach((source, s) => {
      let sum = 0;
      for (const head of heads) for (const t of pieces) for (const k of source.tokens) sum += head[t]?.[k] || 0;
      sums.set(s, sum / heads.length / pieces.length);
    });
    return sums;
  }
  const alignment = line.hypotheses[line.shown]?.alignment;
  if (!alignment) return null;
  for (const t of word.tokens) {
    const s = line.sourceWords.findIndex(source => source.tokens.includes(alignment[t]));
    if (s >= 0) sums.set(s, sums.get(s) + 1 / word.tokens.length);
  }
  return sums;
}
function attend(line, here) {
  for (const word of line.box.querySelectorAll('.word.on')) word.classList.remove('on');
  if (!here) {
    line.box.classList.remove('attending');
    line.pointed = null;
    hush();
    return;
  }
  line.pointed = here;
  line.last = Number(here.dataset.at);
  here.classList.add('on');
  const index = Number(here.dataset.at), word = line.words[index], weights = sourceWeights(line, index);
  const told = [element('strong', '', element('bdi', '', word.text))];
  const logs = line.hypotheses[line.shown]?.token_log_probabilities;
  if (logs && word.tokens.length) {
    const sum = word.tokens.reduce((all, t) => all + (logs[t] || 0), 0);
    told.push(element('div', '', here.classList.contains('forced') ? 'your choice' : `probability ${percent(Math.exp(sum))}`));
  }
  if (weights) {
    const spans = line.box.firstChild.querySelectorAll('span'), most = Math.max(...weights.values(), 1e-9);
    weights.forEach((w, s) => { if (spans[s]) weight(spans[s], w / most); });
    line.box.classList.add('attending');
    const table = element('table');
    for (const [s, w] of [...weights].sort((a, b) => b[1] - a[1]).slice(0, 3)) {
      if (w > 0.005) table.append(element('tr', '', element('td', '', element('bdi', '', line.sourceWords[s].text)), element('td', '', percent(w))));
    }
    told.push(element('div', 'place', line.attention?.cross ? 'attends to' : 'aligned with'), table);
  }
  if ($('menu').hidden) tell(here, told);
}
$('translate-layer').onchange = () => {
  const line = lines[at], word = line?.box.querySelectorAll('.word')[line.last];
  if (word) attend(line, word);
};

// Alternatives at a word.
let menuWord = null;
function openMenu(line, here) {
  const again = menuWord === here;
  closeMenu(false);
  if (again) return;
  hush();
  selectLine(line);
  menuWord = here;
  here.setAttribute('aria-expanded', 'true');
  const index = Number(here.dataset.at), prefix = joined(line.words.slice(0, index)), menu = $('menu');
  menu.replaceChildren(element('p', '', 'Finding alternatives'));
  menu.hidden = false;
  placeMenu();
  ask('/v1/translate', {model: translator.id, text: line.text, prefix, alternatives: 5, beam: beamWidth(), scores: true}, begin('menu')).then(reply => {
    const translation = reply.translations[0];
    if (translation.error) throw new ServerError(translation.error.message || translation.error);
    const items = translation.hypotheses.map(hypothesis => alternative(line, index, prefix, hypothesis));
    menu.replaceChildren(...items.length ? items : [element('p', '', 'The model knows no alternative here.')]);
    placeMenu();
    items[0]?.focus();
  }).catch(error => {
    if (error.name === 'AbortError') return;
    menu.replaceChildren(element('div', 'error', error.message));
    menu.firstChild.setAttribute('role', 'alert');
    placeMenu();
  });
}
function alternative(line, index, prefix, hypothesis) {
  const tokens = hypothesis.tokens || [], logs = hypothesis.token_log_probabilities || [], words = wordsOfText(hypothesis.text, tokens);
  // The first piece that goes beyond the prefix.
  let piece = tokens.findIndex((_, k) => joined(wordsOf(tokens.slice(0, k + 1)).filter(word => !word.special)).length > prefix.length);
  const ended = piece < 0;
  if (ended) piece = tokens.length - 1;
  let here = words.findIndex(word => word.tokens.includes(piece));
  if (here < 0) here = Math.min(index, words.length - 1);
  const probability = Math.exp(logs[piece] ?? NaN);
  const word = ended ? 'end of text' : words[here].text, rest = ended ? '' : joined(words.slice(here + 1)).trim();
  const item = element('button', !ended && line.words[index]?.text === word ? 'now' : '', Object.assign(element('b', '', word), {dir: 'auto'}),
                       element('span', 'number', Number.isFinite(probability) ? percent(probability) : ''),
                       element('span', 'share', weight(element('i'), probability)));
  if (rest) item.append(Object.assign(element('span', 'rest', `\u2026 ${rest}`), {dir: 'auto'}));
  item.type = 'button';
  item.tabIndex = -1;
  item.setAttribute('role', 'menuitem');
  item.onclick = () => {
    line.prefix = ended ? prefix : joined(words.slice(0, here + 1));
    closeMenu(false);
    continueFrom(line, hypothesis, Math.min(index, words.length - 1));
  };
  return item;
}
// Shows the completion that is known already, then searches again with the chosen prefix.
function continueFrom(line, hypothesis, index) {
  line.hypotheses = [hypothesis];
  line.trace = null;
  showHypothesis(line, 0);
  showEvidence();
  const focus = () => line.box.querySelectorAll('.word')[index]?.focus();
  focus();
  const beam = beamWidth(), held = () => line.box.contains(document.activeElement);
  if (beam === 1) { say(line.translation); return; }
  work('translate', 'Beam search', async signal => {
    const reply = await ask('/v1/translate', {model: translator.id, text: line.text, prefix: line.prefix, beam, nbest: beam, scores: true, trace: true,
                                              alignment: true}, signal);
    const had = held() ? document.activeElement.dataset.at : null;
    takeTranslation(line, reply.translations[0]);
    if (had !== null) line.box.querySelectorAll('.word')[had]?.focus();
    finishTranslation(beam);
  });
}
$('translate-reset').onclick = translate;
copyButton('translate-copy', () => lines.map(line => line.translation).join('\n'));

function placeMenu() {
  const menu = $('menu'), box = menuWord.getClientRects()[0], wide = document.documentElement.clientWidth;
  menu.style.left = `${clamp(box.left - 10, 12, Math.max(wide - menu.offsetWidth - 12, 12)) + scrollX}px`;
  menu.style.top = `${box.bottom + 6 + scrollY}px`;
  const below = menu.getBoundingClientRect().bottom - innerHeight + 12;
  if (below > 0 && box.top > 60) scrollBy({top: Math.min(below, box.top - 60)});
}
function closeMenu(refocus) {
  if ($('menu').hidden) return;
  running.menu?.abort();
  show('menu', false);
  menuWord?.setAttribute('aria-expanded', 'false');
  if (refocus) menuWord?.focus();
  menuWord = null;
}
addEventListener('keydown', event => { if (event.key === 'Escape' && !$('menu').hidden) { event.preventDefault(); closeMenu(true); } });
$('menu').addEventListener('keydown', event => {
  const items = [...$('menu').querySelectorAll('button')], here = items.indexOf(document.activeElement), n = items.length;
  if (event.key === 'Tab') { closeMenu(true); return; }
  const to = {ArrowDown: (here + 1) % n, ArrowUp: (here + n - 1) % n, Home: 0, End: n - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  items[to].focus();
});
addEventListener('pointerdown', event => { if (!event.target.closest('#menu, .word')) closeMenu(false); });
let wide = innerWidth;
addEventListener('resize', () => {
  hush();
  if (innerWidth !== wide) closeMenu(false);  // a phone's bars change the height only
  wide = innerWidth;
});

function showEvidence() {
  const line = lines[at];
  for (const one of lines) one.box.classList.toggle('chosen', one === line);
  if (!line) return;
  showNBest(line);
  showTree(line);
  if (attends() && line.words.length) show('translate-foot', $('translate-layer').children.length > 0);
}
const lineNote = () => lines.length > 1 ? `line ${at + 1} of ${lines.length}` : '';
function showNBest(line) {
  show('translate-nbest-card', line.hypotheses.length > 1);
  $('translate-nbest-note').textContent = lineNote();
  const head = element('tr', '', ...[['#', ''], ['Text', 'text'], ['Score', ''], ['log P', 'extra'], ['Tokens', 'extra']].map(([name, className]) =>
    Object.assign(element('th', className, name), {scope: 'col'})));
  $('translate-nbest').replaceChildren(element('thead', '', head), element('tbody', '', ...line.hypotheses.map((hypothesis, i) => {
    const button = Object.assign(element('button', '', hypothesis.text || '\u2205'), {type: 'button', dir: 'auto'});
    button.setAttribute('aria-pressed', i === line.shown);
    button.onclick = () => {
      closeMenu(false);
      showHypothesis(line, i);
      showEvidence();
      $('translate-nbest').querySelectorAll('button')[i].focus();
      say(line.translation);
    };
    const cell = element('td', 'text', button);
    if (hypothesis.complete === false) cell.append(element('span', 'quiet', ' \u00b7 cut at the length limit'));
    return element('tr', i === line.shown ? 'shown' : '', element('td', '', i + 1), cell, element('td', '', number(hypothesis.score, 3)),
                   element('td', 'extra', Number.isFinite(hypothesis.log_probability) ? number(hypothesis.log_probability, 2) : ''), element('td', 'extra', hypothesis.tokens?.length ?? ''));
  })));
}

// The trace: a column per step, candidates by score, each joined with the hypothesis that it extends.
function showTree(line) {
  const steps = line.trace?.steps || [];
  show('translate-tree-card', steps.length > 0);
  if (!steps.length) return;
  const join = list => list.join('\u0001'), byKey = new Map(), columns = [], pen = document.createElement('canvas').getContext('2d');
  pen.font = `13px ${getComputedStyle(document.body).fontFamily}`;
  const withPruned = $('translate-pruned').checked;
  steps.forEach((entries, step) => {
    const keys = [];
    const column = entries.map((entry, rank) => {
      const chain = [...entry.hypothesis, entry.token];
      const node = {...entry, step, rank, chain, parent: step ? byKey.get(join(entry.hypothesis)) : null, label: short(entry.token, 18)};
      if (entry.fate === 'kept') keys.push([join(chain), node]);
      return node;
    });
    byKey.clear();
    for (const [key, node] of keys) byKey.set(key, node);
    columns.push(column);
  });
  // The path of the shown translation.
  const tokens = line.hypotheses[line.shown]?.tokens || [], nodes = columns.flat();
  const ends = node => node.chain.every((token, i) => token === tokens[tokens.length - node.chain.length + i]);
  let best = nodes.filter(node => node.fate === 'finished' && node.chain.length <= tokens.length && ends(node)).pop();
  best = best || nodes.filter(node => node.fate === 'kept' && node.chain.every((token, i) => token === tokens[i])).pop();
  for (; best; best = best.parent) best.best = true;

  const ROW = 33, HIGH = 25, TOP = 24, GAP = 46;
  const kept = columns.map(column => column.filter(node => withPruned || node.fate !== 'pruned' || node.best));
  let x = 30, rows = 1;
  kept.forEach(column => {
    const width = Math.max(26, ...column.map(node => Math.ceil(pen.measureText(node.label).width) + 18));
    column.forEach((node, row) => Object.assign(node, {row, x, y: TOP + row * ROW, width: Math.ceil(pen.measureText(node.label).width) + 18}));
    column.middle = x + width / 2;
    rows = Math.max(rows, column.length);
    x += width + GAP;
  });
  const width = x - GAP + 8, height = TOP + rows * ROW;
  const tree = svg('svg', {class: 'tree', width, height, viewBox: `0 0 ${width} ${height}`, role: 'group',
                           'aria-label': `Beam trace, ${plural(steps.length, 'step')}. Arrow keys move from token to token.`});
  const labelOf = ({label, x, y}) => {  // with a faint word boundary symbol
    const mark = label.length > 1 && '\u2581\u0120'.includes(label[0]) ? label[0] : '', text = svg('text', {x: x + 9, y: y + 17});
    if (mark) text.append(svg('tspan', {class: 'faint'}, mark));
    text.append(label.slice(mark.length));
    return text;
  };
  const edges = svg('g', {'aria-hidden': 'true'}), marks = svg('g', {});
  edges.append(svg('circle', {cx: 10, cy: TOP + HIGH / 2, r: 4, class: 'edge best'}));
  kept.forEach((column, step) => {
    edges.append(svg('text', {class: 'step', x: column.middle, y: 12}, step + 1));
    for (const node of [...column].sort((a, b) => (a.best || 0) - (b.best || 0))) {
      const from = node.parent ? node.parent.x + node.parent.width : 14, y0 = node.parent ? node.parent.y + HIGH / 2 : TOP + HIGH / 2;
      const y1 = node.y + HIGH / 2, bend = (node.x - from) / 2;
      edges.append(svg('path', {class: `edge ${node.best ? 'best' : node.fate}`, d: `M${from} ${y0}C${from + bend} ${y0} ${node.x - bend} ${y1} ${node.x} ${y1}`}));
    }
    for (const node of column) {
      const made = svg('g', {class: `node ${node.fate}${node.best ? ' best' : ''}`, tabindex: -1, role: 'img',
                             'aria-label': `Step ${step + 1}, ${visible(node.token)}, probability ${percent(Math.exp(node.log_probability))}, ` +
                               `score ${number(node.score, 3)}, ${node.fate}${node.best ? ', in the translation shown' : ''}`});
      made.append(svg('rect', {x: node.x, y: node.y, width: node.width, height: HIGH, rx: 7}),
                  labelOf(node));
      node.made = made;
      made.qkvNode = node;
      marks.append(made);
    }
  });
  tree.append(edges, marks);
  marks.firstChild?.setAttribute('tabindex', '0');
  const point = here => {
    if (!here) { hush(); return; }
    const node = here.qkvNode, row = (name, value) => element('tr', '', element('td', '', name), element('td', '', value));
    tell(here, [element('strong', '', element('bdi', '', visible(node.token))), element('div', 'place', `step ${node.step + 1}, rank ${node.rank + 1}, ${node.fate}`),
                element('table', '', row('probability', percent(Math.exp(node.log_probability))), row('sum of log P', number(node.total, 3)),
                        row('length penalty', node.penalty.toFixed(3)), ...node.coverage ? [row('coverage', number(node.coverage, 3))] : [],
                        row('score', number(node.score, 3)))]);
  };
  tree.addEventListener('keydown', event => {
    const node = event.target.closest('g.node')?.qkvNode;
    if (!node) return;
    const {step, row} = node, children = (kept[step + 1] || []).filter(next => next.parent === node);
    const near = {ArrowUp: kept[step][row - 1], ArrowDown: kept[step][row + 1], ArrowLeft: node.parent || kept[step - 1]?.[0], Home: kept[0][0],
                  ArrowRight: children.find(next => next.best) || children[0] || kept[step + 1]?.[0], End: kept[kept.length - 1][0]};
    if (!(event.key in near)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!near[event.key]) return;
    near[event.key].made.focus({preventScroll: true});
    near[event.key].made.scrollIntoView({block: 'nearest', inline: 'center'});
    requestAnimationFrame(() => point(near[event.key].made));
  });
  rove(tree, 'g.node', point);
  $('translate-tree-scroll').replaceChildren(tree);
  const pruned = nodes.filter(node => node.fate === 'pruned').length;
  $('translate-tree-note').textContent = [lineNote(), plural(steps.length, 'step'), `${plural(nodes.length, 'candidate')}, ${pruned} pruned`].filter(Boolean).join(' \u00b7 ');
}
$('translate-pruned').onchange = () => { if (lines[at]) showTree(lines[at]); };
onSubmit('translate', translate);

// ---- Chat ----------------------------------------------------------------------------------------------------------

// The turns of the conversation: {role, text, images, model, note}. A reload keeps them. Images are URLs with their data.
const CHAT = 'qkv-chat';
let turns = [];
try { turns = JSON.parse(sessionStorage.getItem(CHAT)) || []; } catch { /* not ours */ }
const REASONING = /^\s*<think>([^]*?)(<\/think>|$)/;

// The marks of Markdown that models write most: fenced and inline code, bold.
function marked(text) {
  return text.split(/(```[^\n]*\n[^]*?(?:\n```|$)\n?)/).flatMap((block, i) => {
    if (i % 2) {
      const made = element('pre', 'scroll', block.replace(/^```[^\n]*\n/, '').replace(/\n?(```)?\n?$/, ''));
      made.tabIndex = 0;
      return [made];
    }
    return block.split(/(`[^`\n]+`|\*\*(?! )[^*\n]+(?<! )\*\*)/).map((part, k) =>
      k % 2 ? part[0] === '`' ? element('code', '', part.slice(1, -1)) : element('strong', '', part.slice(2, -2)) : part);
  });
}
function thumbnails(urls) {
  const list = element('div', 'thumbnails');
  list.append(...urls.map((url, i) => Object.assign(element('img'), {src: url, alt: `Image ${i + 1}`})));
  return list;
}
function turnElement(turn) {
  const box = element('article', `turn ${turn.role}`, element('h3', '', turn.role === 'user' ? 'You' : turn.model));
  const said = Object.assign(element('div', 'said'), {dir: 'auto'}), button = element('button', 'plain small', 'Copy');
  button.type = 'button';
  button.setAttribute('aria-label', turn.role === 'user' ? 'Copy this message' : 'Copy this answer');
  button.onclick = async () => {
    button.textContent = await copy(turn.text) ? 'Copied' : 'Not allowed';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  };
  if (turn.images?.length) box.append(thumbnails(turn.images));
  box.append(said);
  if (turn.role === 'assistant') box.append(button);
  turn.draw = () => {
    // What a model writes between <think> and </think> is folded.
    const reasoning = turn.role === 'assistant' ? turn.text.match(REASONING) : null, answer = reasoning ? turn.text.slice(reasoning[0].length).trimStart() : turn.text;
    if (turn.role === 'user') said.textContent = answer;
    else said.replaceChildren(...marked(answer));
    if (!reasoning?.[1].trim()) return;
    let fold = box.querySelector('details');
    if (!fold) {
      fold = element('details', '', element('summary', '', 'Reasoning'), Object.assign(element('div', 'said'), {dir: 'auto'}));
      said.before(fold);
    }
    fold.lastChild.textContent = reasoning[1].trim();
  };
  turn.draw();
  turn.box = box;
  return box;
}
function showChat() {
  const log = $('chat-log'), busy = $('chat-card').classList.contains('busy');
  if (log.children.length !== turns.length) log.replaceChildren(...turns.map(turnElement));
  showAdded();
  show('chat-empty', !turns.length);
  show('chat-log', turns.length > 0);
  for (const id of ['chat-copy', 'chat-reset']) show(id, turns.length > 0);
  $('chat-again').disabled = busy || !turns.length;
  $('chat-stats').textContent = turns.at(-1)?.note || '';
  log.scrollTop = log.scrollHeight;
}
const messageOf = ({role, text, images}) => ({role, content: images?.length
  ? [...images.map(url => ({type: 'image_url', image_url: {url}})), {type: 'text', text}] : text});
function chatBody() {
  const body = {model: modelOf('chat').id, messages: turns.map(messageOf), stream: true,
                stream_options: {include_usage: true}};
  if ($('chat-system').value.trim()) body.messages.unshift({role: 'system', content: $('chat-system').value});
  for (const name of ['temperature', 'top_k', 'top_p', 'min_p', 'seed', 'max_tokens']) {
    const value = $(`chat-${name}`).value;
    if (value !== '') body[name] = Number(value);
  }
  if ($('chat-variables').value.trim()) {
    try {
      body.chat_template_kwargs = JSON.parse($('chat-variables').value);
    } catch (error) {
      throw new ServerError(`Template variables: expected a JSON object. ${error.message}`);
    }
  }
  return body;
}
function answer() {
  let turn = null, mine = null, reason = null, usage = null, seed, first = 0;
  const began = performance.now(), log = $('chat-log');
  const finished = work('chat', 'Reading', async signal => {
    mine = signal;
    const body = chatBody();
    $('chat-stop').disabled = false;
    showChat();
    await listen('/v1/chat/completions', body, signal, event => {
      usage = event.usage || usage;
      seed = event.seed ?? seed;
      const choice = event.choices?.[0];
      if (!choice) return;
      if (!turn) {
        turn = {role: 'assistant', text: '', model: body.model};
        turns.push(turn);
        log.append(turnElement(turn));
        turn.box.querySelector('.said').classList.add('caret');
        first = performance.now();
        $('chat-stage').textContent = 'Writing';
      }
      reason = choice.finish_reason || reason;
      if (!choice.delta?.content) return;
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
      turn.text += choice.delta.content;
      turn.draw();
      if (atEnd) log.scrollTop = log.scrollHeight;
    });
    $('chat-stage').textContent = reason === 'length' ? 'Ended at the limit' : '';
  });
  finished.then(() => {
    turn?.box.querySelectorAll('.said').forEach(said => said.classList.remove('caret'));
    if (turn && turns.includes(turn)) {
      const facts = [];
      if (usage) {
        const written = usage.completion_tokens, seconds = (performance.now() - first) / 1000;
        facts.push(`${usage.prompt_tokens} + ${plural(written, 'token')}`, `first after ${((first - began) / 1000).toFixed(1)} s`);
        if (seconds > 0) facts.push(`${(written / seconds).toFixed(1)} tokens/s`);
      }
      if (seed !== undefined) facts.push(`seed ${seed}`);
      turn.note = facts.join(' \u00b7 ');
      if (!turn.text) {  // stopped before its first word
        turns.splice(turns.indexOf(turn), 1);
        turn.box.remove();
      }
    }
    keepTurns();
    if (running.chat.signal !== mine) return;
    const held = document.activeElement === $('chat-stop');
    $('chat-stop').disabled = true;
    showChat();
    if (held) $('chat-text').focus();
    if ($('chat-error').hidden && turn) say(turn.text);
  });
}
function keepTurns() {
  const plain = turns.map(({role, text, images, model, note}) => ({role, text, images, model, note}));
  try { sessionStorage.setItem(CHAT, JSON.stringify(plain)); } catch { /* too long to keep */ }
}
// Images of the next message. The server reads PNG and JPEG: others, and large ones, become JPEG of at most 2048 pixels a side.
let added = [];
const AS_IT_IS = 1 << 20, LONGEST = 2048;
async function imageUrl(file) {
  if (['image/png', 'image/jpeg'].includes(file.type) && file.size <= AS_IT_IS) {
    return new Promise((done, failed) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result);
      reader.onerror = () => failed(reader.error);
      reader.readAsDataURL(file);
    });
  }
  const bitmap = await createImageBitmap(file), shrink = Math.min(1, LONGEST / Math.max(bitmap.width, bitmap.height));
  const canvas = Object.assign(element('canvas'), {width: Math.max(1, Math.round(bitmap.width * shrink)), height: Math.max(1, Math.round(bitmap.height * shrink))});
  const context = canvas.getContext('2d');
  context.fillStyle = '#fff';
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL('image/jpeg', .92);
}
function showAdded() {
  const list = $('chat-images');
  show('chat-add', Boolean(modelOf('chat')?.images));
  show('chat-images', added.length > 0);
  list.replaceChildren(...added.map((url, i) => {
    const button = element('button');
    button.type = 'button';
    button.setAttribute('aria-label', `Remove image ${i + 1}`);
    button.append(Object.assign(element('img'), {src: url, alt: ''}));
    button.onclick = () => {
      added.splice(i, 1);
      showAdded();
      (list.children[Math.min(i, added.length - 1)] || $('chat-text')).focus();
    };
    return button;
  }));
}
async function addImages(files) {
  show('chat-error', false);
  for (const file of files) {
    try {
      added.push(await imageUrl(file));
    } catch {
      $('chat-error').textContent = `${file.name}: the browser cannot read this image.`;
      show('chat-error');
    }
  }
  showAdded();
  $('chat-text').focus();
}
$('chat-files').onchange = event => {
  addImages([...event.target.files]);
  event.target.value = '';
};
$('chat-text').addEventListener('paste', event => {
  const files = [...event.clipboardData.files].filter(file => file.type.startsWith('image/'));
  if (!files.length || !modelOf('chat').images) return;
  event.preventDefault();
  addImages(files);
});
function sendMessage() {
  const text = $('chat-text').value;
  if (!text.trim()) { $('chat-text').focus(); return; }
  running.chat?.abort();
  turns.push({role: 'user', text, images: added});
  added = [];
  showAdded();
  $('chat-text').value = '';
  $('chat-text').dispatchEvent(new Event('input'));
  keepTurns();
  showChat();
  answer();
}
$('chat-text').addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  event.preventDefault();
  $('chat-form').requestSubmit();
});
$('chat-stop').onclick = () => running.chat?.abort();
$('chat-again').onclick = () => {
  if (turns.at(-1)?.role === 'assistant') {
    turns.pop();
    $('chat-log').lastChild.remove();
  }
  $('chat-text').focus();
  answer();
};
$('chat-reset').onclick = () => {
  running.chat?.abort();
  turns = [];
  added = [];
  keepTurns();
  show('chat-error', false);
  $('chat-stage').textContent = '';
  $('chat-log').replaceChildren();
  showChat();
  $('chat-text').focus();
};
copyButton('chat-copy', () => turns.map(({role, text, model}) => `${role === 'user' ? 'You' : model}: ${text}`).join('\n\n'));
onSubmit('chat', sendMessage);

// ---- Write ---------------------------------------------------------------------------------------------------------

let written = [];  // tokens: {text, token, log, top}
function write() {
  const prompt = $('write-text').value;
  const body = {model: modelOf('generate').id, prompt, logprobs: 5, stream: true, stream_options: {include_usage: true},
                seed: Math.floor(Math.random() * 2 ** 31)};
  for (const name of ['temperature', 'top_k', 'top_p', 'min_p', 'seed', 'max_tokens']) {
    const value = $(`write-${name}`).value;
    if (value !== '') body[name] = Number(value);
  }
  if ($('write-stop_text').value) body.stop = $('write-stop_text').value.replaceAll('\\n', '\n');
  const out = $('write-out');
  written = [];
  show('write-empty', false);
  show('write-foot', false);
  show('write-copy', false);
  out.replaceChildren(element('span', 'prompt', prompt));
  out.classList.add('caret');
  $('write-stop').disabled = false;
  const began = performance.now();
  let reason = null, mine = null, count = 0;
  work('write', 'Writing', async signal => {
    mine = signal;
    await listen('/v1/completions', body, signal, event => {
      count = event.usage?.completion_tokens ?? count;
      const choice = event.choices?.[0];
      if (!choice) return;
      for (const token of tokensOf(choice)) addToken(out, token);
      reason = choice.finish_reason || reason;
    });
    const full = count > 0 && count < body.max_tokens;
    $('write-stage').textContent = reason !== 'length' ? 'Ended by the model' : full ? 'Context full' : 'Ended at the limit';
  }).then(() => {
    if (running.write.signal !== mine) return;
    out.classList.remove('caret');
    const held = document.activeElement === $('write-stop');
    $('write-stop').disabled = true;
    if (held) $('write-form').querySelector('.main').focus();
    const seconds = (performance.now() - began) / 1000, logs = written.map(token => token.log).filter(Number.isFinite);
    const facts = [plural(written.length, 'token'), `${(written.length / seconds).toFixed(1)} tokens/s`];
    if (logs.length) facts.push(`perplexity ${Math.exp(-logs.reduce((a, b) => a + b, 0) / logs.length).toFixed(2)}`);
    facts.push(`seed ${body.seed}`);
    $('write-stats').textContent = facts.join(' \u00b7 ');
    show('write-foot', written.length > 0);
    show('write-copy', written.length > 0);
    if ($('write-error').hidden) say(`${plural(written.length, 'token')}. ${written.map(token => token.text).join('')}`);
  });
}
// The tokens of a chunk. Its text decides: bytes of unfinished characters are not in it.
function tokensOf({text, logprobs}) {
  const tokens = logprobs?.tokens || [];
  if (!tokens.length) return text ? [{text, token: text}] : [];
  const one = (i, part) => ({text: part, token: tokens[i], log: logprobs.token_logprobs?.[i], top: logprobs.top_logprobs?.[i]});
  if (tokens.join('') === text) return tokens.map((token, i) => one(i, token));
  return text ? [one(tokens.length - 1, text)] : [];
}
function addToken(out, token) {
  const made = element('span', 'token', token.text);
  if (Number.isFinite(token.log)) weight(made, 1 - Math.exp(token.log));
  made.dataset.at = written.length;
  made.tabIndex = written.length ? -1 : 0;
  made.setAttribute('role', 'img');
  made.setAttribute('aria-label', Number.isFinite(token.log) ? `${visible(token.text)}, ${percent(Math.exp(token.log))}` : visible(token.text));
  written.push(token);
  out.append(made);
}
rove($('write-out'), '.token', here => {
  if (!here) { hush(); return; }
  const {text, log, top} = written[here.dataset.at], told = [element('strong', '', element('bdi', '', visible(text)))];
  if (Number.isFinite(log)) told.push(element('div', '', `probability ${percent(Math.exp(log))}`));
  const list = Object.entries(top || {}).sort((a, b) => b[1] - a[1]);
  if (list.length) {
    told.push(element('div', 'place', 'most likely here'), element('table', '', ...list.map(([token, other]) =>
      element('tr', token === written[here.dataset.at].token ? 'now' : '', element('td', '', element('bdi', '', short(token))), element('td', '', percent(Math.exp(other)))))));
  }
  tell(here, told);
});
$('write-stop').onclick = () => running.write?.abort();
copyButton('write-copy', () => $('write-text').value + written.map(token => token.text).join(''));
onSubmit('write', write);

// ---- Embed ---------------------------------------------------------------------------------------------------------

function embed() {
  const texts = $('embed-text').value.split('\n').map(text => text.trim()).filter(text => text);
  if (texts.length < 2) {
    fail('embed', new ServerError('Write at least two sentences, one a line.'));
    $('embed-text').focus();
    return;
  }
  work('embed', 'Computing vectors', async signal => {
    const reply = await ask('/v1/embeddings', {model: modelOf('embed').id, input: texts}, signal);
    const failed = reply.data.find(row => row.error);
    if (failed) throw new ServerError(failed.error.message || failed.error);
    const vectors = [...reply.data].sort((a, b) => a.index - b.index).map(row => row.embedding);
    $('embed-stage').textContent = `${vectors[0].length} dimensions`;
    showSimilarity(texts, vectors);
  });
}
function showSimilarity(texts, vectors) {
  const dot = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0), norms = vectors.map(v => Math.sqrt(dot(v, v)) || 1);
  const n = texts.length, cosine = texts.map((_, i) => texts.map((_, j) => dot(vectors[i], vectors[j]) / norms[i] / norms[j]));
  let low = Infinity, high = -Infinity, pair = [0, 1];
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < i; j++) {
      low = Math.min(low, cosine[i][j]);
      if (cosine[i][j] > high) [high, pair] = [cosine[i][j], [j, i]];
    }
  }
  const span = high - low, shade = c => span < 1e-6 ? 0.5 : (c - low) / span;
  const header = (content, scope, className) => { const cell = element('th', className, ...content); cell.scope = scope; return cell; };
  const head = element('tr', '', element('td', 'self'), ...texts.map((text, i) => header([String(i + 1)], 'col')));
  const rows = texts.map((text, i) => element('tr', '', header([element('div', 'name', element('span', 'at', i + 1), element('bdi', '', text))], 'row'), ...texts.map((_, j) => {
    if (i === j) return element('td', 'self', '1');
    const near = n > 2 && pair.includes(i) && pair.includes(j);
    return weight(element('td', near ? 'near' : '', number(cosine[i][j], 2)), shade(cosine[i][j]));
  })));
  const caption = element('caption', 'hidden-text', 'Cosine similarity of each pair of sentences');
  $('embed-map').replaceChildren(caption, element('thead', '', head), element('tbody', '', ...rows));
  $('embed-low').textContent = number(low, 2);
  $('embed-high').textContent = number(high, 2);
  $('embed-note').textContent = n > 2 ? `Closest: ${pair[0] + 1} and ${pair[1] + 1}, ${number(high, 2)}.` : '';
  show('embed-empty', false);
  show('embed-scroll');
  show('embed-foot', n > 2);
  say(n > 2 ? $('embed-note').textContent : `Cosine similarity ${high.toFixed(2)}.`);
}
onSubmit('embed', embed);

// ---- Classify, tag, answer, fill mask --------------------------------------------------------------------------------------

const READ = {
  classify: {name: 'Classify', go: 'Classify', title: 'Labels', hint: 'Each line is a text of its own.', placeholder: 'Text to classify.',
             empty: 'The labels appear here, with their probabilities.'},
  tag: {name: 'Tag', go: 'Tag', title: 'Tags', hint: 'Each line is a text of its own.', placeholder: 'Text to tag.',
        empty: 'Tagged words appear here in colour, each with its label.'},
  answer: {name: 'Answer', go: 'Answer', title: 'Answers', hint: 'The answer is a part of the text.', placeholder: 'Text with the answer.',
           empty: 'The text appears here with its answer marked, and the likeliest answers.'},
  'fill-mask': {name: 'Fill mask', go: 'Fill', title: 'Candidates', hint: 'Put [MASK] where a word is missing.',
                placeholder: 'Text with a [MASK].', empty: 'The most likely tokens for each mask appear here.'},
};
const maskToken = () => modelOf('fill-mask').mask_token || '[MASK]';
let readShown = '';  // the task of the results
function openRead() {
  const kinds = tasksOf(tabOf('classify')), about = READ[task];
  segments($('read-kinds'), kinds.map(kind => [kind, READ[kind].name]), task, kind => openTask(kind));
  show('read-kinds', kinds.length > 1);
  $('read-go').textContent = about.go;
  $('read-title').textContent = about.title;
  const mask = task === 'fill-mask' ? maskToken() : '';
  $('read-hint').textContent = about.hint.replace('[MASK]', mask);
  $('read-text').placeholder = about.placeholder.replace('[MASK]', mask);
  $('read-empty-text').textContent = about.empty;
  show('read-mask', task === 'fill-mask');
  show('read-question-label', task === 'answer');
  $('read-mask').textContent = `Insert ${mask}`;
  if (readShown !== task) {
    running.read?.abort();
    $('read-out').replaceChildren();
    $('read-stage').textContent = '';
    show('read-error', false);
    show('read-empty');
  }
}
$('read-mask').onclick = () => {
  const area = $('read-text');
  area.setRangeText(maskToken(), area.selectionStart, area.selectionEnd, 'end');
  area.focus();
};
function read() {
  const kind = task, value = $('read-text').value;
  const texts = (kind === 'answer' ? [value] : value.split('\n')).filter(text => text.trim());
  const empty = kind === 'answer' && !$('read-question').value.trim() ? 'read-question' : texts.length ? '' : 'read-text';
  if (empty) { $(empty).focus(); return; }
  const body = {model: modelOf(kind).id, text: texts.length > 1 ? texts : texts[0]};
  if (kind === 'fill-mask') body.count = 5;
  if (kind === 'answer') Object.assign(body, {question: $('read-question').value, top: 5});
  readShown = kind;
  work('read', 'Working', async signal => {
    const reply = await ask(`/v1/${kind}`, body, signal), results = reply.results;
    $('read-out').replaceChildren(...results.map((result, i) => readResult(kind, texts[i], result, texts.length > 1)));
    $('read-stage').textContent = '';
    show('read-empty', false);
    say($('read-out').innerText);
  });
}
function readResult(kind, text, result, many) {
  const box = element('div', 'result');
  if (result.error) {
    box.append(element('div', 'error', result.error.message || result.error));
    return box;
  }
  if (many && kind !== 'tag') box.append(Object.assign(element('h3', '', text), {dir: 'auto'}));
  if (kind === 'classify') box.append(bars(result.labels));
  else if (kind === 'tag') box.append(tagged(text, result.tokens));
  else if (kind === 'answer') box.append(answered(text, result.answers), bars(result.answers.map(({text: label, probability}) => ({label, probability}))));
  else {
    result.masks.forEach((candidates, m) => {
      if (result.masks.length > 1) box.append(element('h3', 'quiet', `Mask ${m + 1}`));
      box.append(bars(candidates.map(({token, probability, text: filled}) =>
        ({label: visible(token.replace(/^(##|\u2581|\u0120)/, '')), probability,
          sentence: filled ? Object.assign(element('span', 'sentence', filled), {dir: 'auto'}) : null}))));
    });
  }
  return box;
}
// Offsets may count UTF-16 units, code points or bytes: the tokens' texts tell which.
function placesIn(text, tokens) {
  const points = Array.from(text), bytes = new TextEncoder().encode(text), decoder = new TextDecoder();
  const before = [list => text.slice(0, list), n => points.slice(0, n).join(''), n => decoder.decode(bytes.slice(0, n))];
  const wrong = take => tokens.filter(({text: own, begin, end}) => own !== undefined && text.slice(take(begin).length, take(end).length) !== own).length;
  const take = before.map(one => [wrong(one), one]).reduce((a, b) => b[0] < a[0] ? b : a)[1];
  return tokens.map(token => ({...token, from: take(token.begin).length, to: take(token.end).length}));
}
// Taggers learn the label of a word from its first token.
function taggedWords(text, tokens) {
  const words = [], inWord = at => at > 0 && /[\p{L}\p{M}\p{N}]/u.test(text[at]) && /[\p{L}\p{M}\p{N}]/u.test(text[at - 1]) && !UNSPACED.test(text[at]);
  for (const token of placesIn(text, tokens)) {
    const last = words[words.length - 1];
    if (last && last.to === token.from && inWord(token.from)) last.to = token.to;
    else words.push({...token});
  }
  return words;
}
const hueOf = new Map();
function tagged(text, tokens) {
  const spans = [], bare = label => label.replace(/^[BIES]-/, '');
  for (const token of taggedWords(text, tokens)) {
    if (token.label === 'O') continue;
    const last = spans[spans.length - 1], label = bare(token.label);
    if (last && last.label === label && /^[IE]-/.test(token.label) && /^\s*$/.test(text.slice(last.to, token.from))) {
      last.to = token.to;
      last.probability = Math.min(last.probability, token.probability ?? 1);
    } else if (token.to > token.from) spans.push({label, from: token.from, to: token.to, probability: token.probability ?? 1});
  }
  const box = Object.assign(element('p', 'tagged'), {dir: 'auto'});
  let end = 0;
  for (const span of spans) {
    if (span.from < end) continue;
    if (!hueOf.has(span.label)) hueOf.set(span.label, hueOf.size % 6);
    const mark = element('mark', `tag${hueOf.get(span.label)}`, element('bdi', '', text.slice(span.from, span.to)), element('small', '', span.label));
    mark.title = `${span.label}, ${percent(span.probability)}`;
    box.append(text.slice(end, span.from), mark);
    end = span.to;
  }
  box.append(text.slice(end));
  return box;
}
function answered(text, answers) {
  const box = Object.assign(element('p', 'tagged answered'), {dir: 'auto'});
  if (!answers.length) return box;
  const {from, to} = placesIn(text, answers.slice(0, 1))[0];
  box.append(text.slice(0, from), element('mark', 'tag0', text.slice(from, to)), text.slice(to));
  return box;
}
onSubmit('read', read);

// ---- Speech --------------------------------------------------------------------------------------------------------

// The file, the URL of its sound, its transcript, and the segment and the word that are played: {start, end, box}.
const sound = {file: null, url: '', playable: false, text: '', segments: [], words: [], segment: null, word: null};
const player = $('speech-player');
const clock = seconds => {
  const all = Math.floor(seconds), two = n => String(n).padStart(2, '0'), hours = Math.floor(all / 3600);
  return `${hours ? `${hours}:${two(Math.floor(all / 60) % 60)}` : Math.floor(all / 60)}:${two(all % 60)}`;
};
const bytesOf = n => n < 1e6 ? `${Math.max(1, Math.round(n / 1e3))} kB` : `${(n / 1e6).toFixed(1)} MB`;
const titled = name => name.replace(/(?<![\p{L}\p{M}])\p{L}/gu, letter => letter.toUpperCase());

function openSound(file) {
  if (!file) return;
  running.speech?.abort();
  URL.revokeObjectURL(sound.url);
  Object.assign(sound, {file, url: URL.createObjectURL(file), playable: false});
  player.src = sound.url;
  $('speech-name').textContent = file.name;
  $('speech-caption').textContent = ` \u00b7 ${bytesOf(file.size)}`;
  $('speech-stage').textContent = '';
  show('speech-drop', false);
  show('speech-figure');
  show('speech-again');
  for (const id of ['speech-error', 'speech-sound-error']) show(id, false);
  takeTranscript(null);
}
player.onloadedmetadata = () => setPlayable(true);
player.onerror = () => {  // AIFF, for example: the server reads it nevertheless
  setPlayable(false);
  $('speech-caption').textContent = ` \u00b7 ${bytesOf(sound.file.size)} \u00b7 the browser cannot play it`;
};
function setPlayable(playable) {
  sound.playable = playable;
  $('speech-out').classList.toggle('playable', playable);
  for (const button of $('speech-out').querySelectorAll('.time')) button.disabled = !playable;
  for (const word of $('speech-out').querySelectorAll('.token')) word.setAttribute('aria-disabled', !playable);
}

function transcribe() {
  if (!sound.file) { $('speech-file').focus(); return; }
  const translate = $('speech-translate').checked, words = $('speech-words').checked && !translate, language = $('speech-language').value.trim();
  const data = new FormData();
  for (const [name, value] of [['model', modelOf('transcribe').id], ['response_format', 'verbose_json'], ...language ? [['language', language]] : [],
                               ...words ? [['timestamp_granularities[]', 'segment'], ['timestamp_granularities[]', 'word']] : [],
                               ['file', sound.file]]) data.append(name, value);
  const began = performance.now(), passed = () => (performance.now() - began) / 1000;
  let mine = null, ticking = 0;
  $('speech-stop').disabled = false;
  work('speech', 'Transcribing', async signal => {
    mine = signal;
    ticking = setInterval(() => { if (!signal.aborted) $('speech-stage').textContent = `Transcribing \u00b7 ${clock(passed())}`; }, 1000);
    const found = await ask(`/v1/audio/${translate ? 'translations' : 'transcriptions'}`, data, signal);
    const spoken = titled(found.language || ''), facts = [language ? spoken : `${spoken}, detected`, clock(found.duration)];
    if (translate) facts.splice(1, 0, 'translated to English');
    facts.push(`in ${passed().toFixed(1)} s`);
    $('speech-stage').textContent = '';
    takeTranscript(found, facts.join(' \u00b7 '));
    say(found.text || 'No speech was found.');
  }).then(() => {
    clearInterval(ticking);
    if (running.speech.signal !== mine) return;
    const held = document.activeElement === $('speech-stop');
    $('speech-stop').disabled = true;
    if (held) $('speech-form').querySelector('.main').focus();
  });
}
// Words have no segment: their texts tell, which concatenate to those of the segments.
function takeTranscript(found, facts = '') {
  const out = $('speech-out'), words = found?.words || [];
  let length = 0, at = 0, taken = 0;
  Object.assign(sound, {text: found?.text || '', words, segment: null, word: null});
  sound.segments = (found?.segments || []).map(({start, end, text}) => {
    const first = at;
    length += text.length;
    for (; at < words.length && taken + words[at].word.length / 2 <= length; at++) taken += words[at].word.length;
    return {start, end, text, words: words.slice(first, at)};
  });
  out.replaceChildren(...sound.segments.map(segmentElement));
  setPlayable(sound.playable);
  out.querySelector('.time')?.setAttribute('tabindex', '0');
  out.querySelector('.token')?.setAttribute('tabindex', '0');
  out.scrollTop = 0;
  const any = sound.segments.length > 0;
  show('speech-out', any);
  show('speech-empty', !any);
  $('speech-empty').lastElementChild.textContent = found && !any ? 'No speech was found.' : 'The transcript appears here, with its times. Click a sentence to hear it.';
  for (const kind of ['copy', 'srt', 'vtt']) show(`speech-${kind}`, any);
  show('speech-foot', Boolean(found));
  show('speech-legend', out.querySelector('.token') !== null);
  $('speech-facts').textContent = facts;
  if (any) follow();
}
function segmentElement(segment) {
  const time = Object.assign(element('button', 'time', clock(segment.start)), {type: 'button', tabIndex: -1});
  const text = Object.assign(element('p', '', ...segment.words.length ? segment.words.flatMap(wordElement) : [segment.text.trim()]), {dir: 'auto'});
  time.setAttribute('aria-label', `Play from ${clock(segment.start)}: ${segment.text.trim()}`);
  segment.box = element('li', '', time, text);
  segment.box.onclick = event => {
    const word = event.target.closest('.token');
    if (getSelection().isCollapsed) play(word ? word.qkvWord.start : segment.start);  // not at the end of a selection
  };
  return segment.box;
}
function wordElement(word, i) {
  const made = element('span', 'token', word.word.trim());
  if (Number.isFinite(word.probability)) weight(made, 1 - word.probability);
  made.qkvWord = word;
  made.tabIndex = -1;
  made.setAttribute('role', 'button');
  made.setAttribute('aria-label', `${word.word.trim()}, ${number(word.start, 1)} seconds${Number.isFinite(word.probability) ? `, ${percent(word.probability)}` : ''}`);
  word.box = made;
  return i && /^\s/.test(word.word) ? [' ', made] : [made];
}
rove($('speech-out'), '.time', () => {});
rove($('speech-out'), '.token', here => {
  if (!here) { hush(); return; }
  const {word, start, end, probability} = here.qkvWord;
  tell(here, [element('strong', '', element('bdi', '', word.trim())), ...Number.isFinite(probability) ? [element('div', '', `probability ${percent(probability)}`)] : [],
              element('div', 'place', `${start.toFixed(2)} to ${end.toFixed(2)} s`)]);
});
$('speech-out').addEventListener('keydown', event => {
  if (!event.target.matches('.token') || event.key !== 'Enter' && event.key !== ' ') return;
  event.preventDefault();
  play(event.target.qkvWord.start);
});

function play(seconds) {
  if (!sound.playable) return;
  player.currentTime = seconds;
  player.play().catch(error => { if (error.name !== 'AbortError') setPlayable(false); });
  follow();
}
// Marks the segment and the word at the player's time, and follows it while it plays.
let following = 0;
function follow() {
  cancelAnimationFrame(following);
  const now = player.currentTime, began = now > 0 || !player.paused, out = $('speech-out');
  for (const [kind, list] of [['segment', sound.segments], ['word', sound.words]]) {
    const here = began && list.findLast(({start, end, box}) => start <= now && now < end && box) || null;
    if (here === sound[kind]) continue;
    for (const [one, on] of [[sound[kind], false], [here, true]]) {
      one?.box.classList.toggle('on', on);
      one?.box.setAttribute('aria-current', on);
    }
    sound[kind] = here;
    if (kind !== 'segment' || !here || player.paused) continue;
    const low = here.box.offsetTop - out.offsetTop, high = low + here.box.offsetHeight;  // the list scrolls, not the page
    if (low < out.scrollTop || high > out.scrollTop + out.clientHeight) out.scrollTop = low - out.clientHeight / 3;
  }
  if (!player.paused) following = requestAnimationFrame(follow);
}
for (const kind of ['play', 'pause', 'seeked', 'ended', 'timeupdate']) player.addEventListener(kind, follow);

// Files of subtitles, as the server writes them.
function stamp(seconds, mark) {
  const all = Math.round(seconds * 1000), digits = (n, count) => String(n).padStart(count, '0');
  return `${digits(Math.floor(all / 3600000), 2)}:${digits(Math.floor(all / 60000) % 60, 2)}:${digits(Math.floor(all / 1000) % 60, 2)}${mark}${digits(all % 1000, 3)}`;
}
function subtitles(kind) {
  const mark = kind === 'srt' ? ',' : '.';
  return (kind === 'vtt' ? 'WEBVTT\n\n' : '') + sound.segments.map(({start, end, text}, i) => {
    const line = text.replace(/[\n\r\t]/g, ' ').replace(/^ +| +$/g, '').replace(/--+>/g, '->');  // an arrow would end the times
    return `${kind === 'srt' ? `${i + 1}\n` : ''}${stamp(start, mark)} --> ${stamp(end, mark)}\n${line}\n\n`;
  }).join('');
}
for (const kind of ['srt', 'vtt']) {
  $(`speech-${kind}`).onclick = () => {
    const url = URL.createObjectURL(new Blob([subtitles(kind)], {type: kind === 'srt' ? 'application/x-subrip' : 'text/vtt'}));
    Object.assign(element('a'), {href: url, download: `${sound.file.name.replace(/\.[^.]*$/, '')}.${kind}`}).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  };
}
copyButton('speech-copy', () => sound.text);
$('speech-stop').onclick = () => running.speech?.abort();
// Words have no times where the server translates.
const showOptions = () => show('speech-words-label', !$('speech-translate').checked);
$('speech-translate').addEventListener('input', showOptions);
showOptions();
onSubmit('speech', transcribe);

// The microphone. Its samples become a WAV file: browsers record to WebM, which the server does not read.
const RATE = 16000;  // the models'
function wavFile(samples, rate) {
  const view = new DataView(new ArrayBuffer(44 + 2 * samples.length));
  const text = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  text(0, 'RIFF');
  view.setUint32(4, 36 + 2 * samples.length, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);         // PCM
  view.setUint16(22, 1, true);         // a channel
  view.setUint32(24, rate, true);
  view.setUint32(28, 2 * rate, true);  // bytes a second
  view.setUint16(32, 2, true);         // bytes of a sample of all channels
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, 2 * samples.length, true);
  samples.forEach((sample, i) => view.setInt16(44 + 2 * i, Math.round(32767 * clamp(sample, -1, 1)), true));
  return view.buffer;
}
// The browser converts a recording to the models' rate: usually a third of the bytes, which the server limits.
async function recordedFile(blocks, rate) {
  const samples = new Float32Array(blocks.reduce((sum, block) => sum + block.length, 0));
  blocks.reduce((at, block) => { samples.set(block, at); return at + block.length; }, 0);
  let file = wavFile(samples, rate);
  if (rate > RATE) {
    const converted = await new OfflineAudioContext(1, 1, RATE).decodeAudioData(file.slice(0)).catch(() => null);
    if (converted) file = wavFile(converted.getChannelData(0), RATE);
  }
  return new File([file], 'recording.wav', {type: 'audio/wav'});
}
const REFUSALS = {
  NotAllowedError: 'The microphone is not allowed. Allow it in the browser\u2019s settings of this page, and record again.',
  NotFoundError: 'The browser finds no microphone.',
  NotReadableError: 'The microphone cannot be read. Another program may use it.',
};
let recording = null;  // while the browser asks, and while it records
async function record() {
  const mine = recording = {blocks: [], samples: 0, stream: null, context: null};
  player.pause();
  show('speech-sound-error', false);
  try {
    mine.stream = await navigator.mediaDevices.getUserMedia({audio: true});
    if (recording !== mine) return endRecording(mine);
    mine.context = new AudioContext();
    await mine.context.audioWorklet.addModule('record.js');
    const node = new AudioWorkletNode(mine.context, 'record', {numberOfOutputs: 0});
    node.port.onmessage = ({data}) => {
      if (recording !== mine) return;
      mine.blocks.push(data);
      mine.samples += data.length;
      $('speech-clock').textContent = clock(mine.samples / mine.context.sampleRate);
      weight($('speech-level'), Math.sqrt(data.reduce((most, sample) => Math.max(most, Math.abs(sample)), 0)));
    };
    mine.stream.getTracks()[0].onended = stopRecording;  // unplugged, or no longer allowed
    await mine.context.resume();
    mine.context.createMediaStreamSource(mine.stream).connect(node);
    showRecording(true);
  } catch (error) {
    endRecording(mine);
    if (recording !== mine) return;
    recording = null;
    showRecording(false);
    $('speech-sound-error').textContent = REFUSALS[error.name] || `The microphone cannot be used: ${error.message}`;
    show('speech-sound-error');
  }
}
function endRecording({stream, context}) {
  stream?.getTracks().forEach(track => track.stop());
  context?.close();
}
async function stopRecording() {
  const mine = recording;
  recording = null;
  showRecording(false);
  if (!mine) return;
  const rate = mine.context?.sampleRate;
  endRecording(mine);
  if (mine.samples) openSound(await recordedFile(mine.blocks, rate));
}
function showRecording(on) {
  $('speech-sources').classList.toggle('recording', on);
  $('speech-record-text').textContent = on ? 'Stop recording' : 'Record';
  $('speech-clock').textContent = clock(0);
  weight($('speech-level'), 0);
  show('speech-recording', on);
  say(on ? 'Recording.' : '');
}
$('speech-record').onclick = () => { if (recording) stopRecording(); else record(); };
show('speech-record', Boolean(navigator.mediaDevices?.getUserMedia && window.AudioWorkletNode));

$('speech-file').onchange = event => {
  openSound(event.target.files[0]);
  event.target.value = '';
};
dropFiles($('speech-form'), openSound);
addEventListener('paste', event => {
  const file = [...event.clipboardData?.files || []].find(one => one.type.startsWith('audio/') || /\.(wav|flac|mp3|og[ga]|opus|aiff?)$/i.test(one.name));
  if (!file || task !== 'transcribe') return;
  event.preventDefault();
  openSound(file);
});

// ---- Image ---------------------------------------------------------------------------------------------------------

// A report's weights from the first token, [CLS], to the patches.
function ofFirstToken(report) {
  const patches = rows => rows[0].slice(report.own_tokens.length);
  return {grid: [report.patches.rows, report.patches.columns], region: report.region, rollout: patches(report.rollout.at(-1)),
          layers: report.layers.map(layer => layer.heads.map(patches))};
}

// A model of images and texts has no labels of its own.
const readsLabels = () => modelOf('image').kind === 'image-text';
const imageForm = (more = {}) => {
  const data = new FormData();
  for (const [name, value] of Object.entries({model: modelOf('image').id, ...more, image: image.file})) data.append(name, value);
  return data;
};
async function labelImage(signal) {
  const own = $('image-own').value.trim();
  if (readsLabels() && !own) return $('image-labels').replaceChildren();
  const reply = await ask('/v1/images/classify', imageForm(readsLabels() ? {labels: own} : {}), signal);
  const result = reply.results[0];
  if (result.error) throw new ServerError(result.error.message || result.error);
  $('image-labels').replaceChildren(bars(result.labels));
  say(result.labels.slice(0, 3).map(({label, probability}) => `${label}, ${percent(probability)}`).join('. '));
}
$('image-form').onsubmit = event => {
  event.preventDefault();
  if (image.file) work('image', 'Working', labelImage).then(() => { $('image-stage').textContent = ''; });
};

const image = {file: null, bitmap: null, attention: null, view: 'rollout', layer: 0, head: -1};
async function openImage(file) {
  if (!file) return;
  const model = modelOf('image');
  Object.assign(image, {file, attention: null, bitmap: null});
  $('image-labels').replaceChildren();
  show('image-empty', false);
  await work('image', 'Working', async signal => {
    const bitmap = await createImageBitmap(file).catch(() => null);
    if (signal.aborted) return;
    image.bitmap = bitmap;
    show('image-drop', false);
    show('image-figure');
    show('image-bar', false);
    show('image-again-bar');
    $('image-caption').textContent = bitmap ? `${file.name} \u00b7 ${bitmap.width} \u00d7 ${bitmap.height}` : file.name;
    drawImage();
    const wants = wanted => model.tasks.includes(wanted);
    const labels = wants('classify-image') && labelImage(signal);
    const attention = wants('attention-image') && ask('/v1/images/attention', imageForm(), signal).then(reply => {
      if (signal.aborted) return;
      image.attention = ofFirstToken(reply);
      image.view = 'rollout';
      image.layer = reply.layers.length - 1;
      image.head = -1;
      showImageControls();
      drawImage();
    });
    const failed = (await Promise.allSettled([labels, attention])).find(one => one.status === 'rejected');
    if (failed) throw failed.reason;
    $('image-stage').textContent = '';
  });
}
function showImageControls() {
  const {attention, view} = image, views = [['rollout', 'Rollout'], ['head', 'Head'], ['plain', 'Image']];
  show('image-bar');
  segments($('image-views'), views.filter(([name]) => name === 'plain' || (name === 'rollout' ? attention.rollout : attention.layers?.length)), view, name => {
    image.view = name;
    showImageControls();
    drawImage();
  });
  const heads = view === 'head' ? attention.layers[image.layer].length : 0;
  show('image-layer-label', view === 'head');
  show('image-head-label', view === 'head');
  if (!heads) return;
  $('image-layer').replaceChildren(...attention.layers.map((_, i) => new Option(i + 1, i, false, i === image.layer)));
  $('image-head').replaceChildren(new Option('mean', -1, false, image.head === -1), ...Array.from({length: heads}, (_, i) => new Option(i + 1, i, false, i === image.head)));
}
$('image-layer').onchange = event => { image.layer = Number(event.target.value); showImageControls(); drawImage(); };
$('image-head').onchange = event => { image.head = Number(event.target.value); drawImage(); };

const HEAT = [0x100C24, 0x43196F, 0x932B80, 0xE2525E, 0xFBA55B, 0xFCF3B8];
function heat(v) {
  const place = clamp(v, 0, 1) * (HEAT.length - 1), low = Math.min(Math.floor(place), HEAT.length - 2), t = place - low;
  return [16, 8, 0].map(shift => {
    const a = HEAT[low] >> shift & 255, b = HEAT[low + 1] >> shift & 255;
    return Math.round(a + (b - a) * t);
  });
}
function patchWeights() {
  const {attention, view, layer, head} = image;
  if (!attention || view === 'plain') return null;
  if (view === 'rollout') return attention.rollout;
  const heads = attention.layers[layer];
  return head >= 0 ? heads[head] : heads[0].map((_, i) => heads.reduce((sum, one) => sum + one[i], 0) / heads.length);
}
function drawImage() {
  const canvas = $('image-canvas'), {bitmap, attention} = image;
  if (!image.file || $('image-figure').hidden) return;
  const [rows, columns] = attention?.grid || [1, 1], shape = bitmap ? bitmap.height / bitmap.width : rows / columns;
  const room = Math.max($('image-figure').clientWidth, 200), wide = Math.round(Math.min(room, 520 / shape)), high = Math.round(wide * shape);
  const dots = devicePixelRatio || 1;
  canvas.width = Math.round(wide * dots);
  canvas.height = Math.round(high * dots);
  canvas.style.width = `${wide}px`;
  const ctx = canvas.getContext('2d'), weights = patchWeights();
  ctx.imageSmoothingQuality = 'high';
  ctx.fillStyle = '#777777';
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  if (weights) ctx.filter = 'grayscale(1)';
  if (bitmap) ctx.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  ctx.filter = 'none';
  $('image-canvas').setAttribute('aria-label', `${image.file.name}${!weights ? '' : image.view === 'rollout' ? ', with attention rollout' :
    `, with attention of layer ${image.layer + 1}, ${image.head < 0 ? 'mean of heads' : `head ${image.head + 1}`}`}`);
  if (!weights) return;
  // A pixel per patch and a border of one, so that stretching is smooth up to the edge.
  const low = Math.min(...weights), span = Math.max(...weights) - low, patches = document.createElement('canvas');
  patches.width = columns + 2;
  patches.height = rows + 2;
  const pixels = new ImageData(columns + 2, rows + 2);
  for (let y = 0; y < rows + 2; y++) {
    for (let x = 0; x < columns + 2; x++) {
      const v = span > 0 ? (weights[clamp(y - 1, 0, rows - 1) * columns + clamp(x - 1, 0, columns - 1)] - low) / span : 0.5;
      pixels.data.set([...heat(v), Math.round(255 * (0.5 + 0.3 * v))], 4 * (y * (columns + 2) + x));
    }
  }
  patches.getContext('2d').putImageData(pixels, 0, 0);
  // The model may read a part of the image only.
  const {top, left, height, width} = attention.region;
  const x = left * canvas.width, y = top * canvas.height, across = width * canvas.width / columns, down = height * canvas.height / rows;
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, across * columns, down * rows);
  ctx.clip();
  ctx.drawImage(patches, x - across, y - down, (columns + 2) * across, (rows + 2) * down);
  ctx.restore();
}
$('image-file').onchange = event => {
  openImage(event.target.files[0]);
  event.target.value = '';
};
dropFiles($('image-card'), openImage);
let redraw = 0;
addEventListener('resize', () => { cancelAnimationFrame(redraw); redraw = requestAnimationFrame(drawImage); });

// ---- Load of the server --------------------------------------------------------------------------------------------

const rates = [];
let seen = null, timer = 0, pause = 2000;
function metric(text, name) {
  let sum = 0, found = false;
  for (const row of text.split('\n')) {
    if (!row.startsWith(name) || !/[ {]/.test(row[name.length]) || /"\/metrics"/.test(row)) continue;
    sum += Number(row.slice(row.lastIndexOf('}') + 1).trim().split(/\s+/)[row.includes('}') ? 0 : 1]) || 0;
    found = true;
  }
  return found ? sum : null;
}
async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  let text;
  try {
    const reply = await fetch('/metrics', {headers: headers()});
    if (reply.ok) text = await reply.text();
    else if (reply.status < 500) { show('load', false); return; }  // none here, or only with a key
  } catch { /* the server does not answer */ }
  clearTimeout(timer);
  pause = text === undefined ? Math.min(2 * pause, 30000) : 2000;
  timer = setTimeout(poll, pause);
  if (text === undefined) { seen = null; show('load', false); return; }
  const total = metric(text, 'qkv_requests_total') ?? 0, now = performance.now();
  if (seen) rates.push(Math.max(0, (total - seen.total) / (now - seen.now) * 1000));
  seen = {total, now};
  if (rates.length > 30) rates.shift();
  const rate = rates[rates.length - 1] || 0, queue = metric(text, 'qkv_queue_requests') ?? 0, busy = metric(text, 'qkv_running_requests') ?? 0;
  $('rate').textContent = rate < 9.95 ? rate.toFixed(1) : Math.round(rate);
  $('queue').textContent = queue;
  $('running').textContent = busy;
  $('load').setAttribute('aria-label', `${rate.toFixed(1)} requests per second, ${busy} running, ${queue} in the queue`);
  const top = Math.max(1, ...rates), points = rates.map((r, i) => `${(96 - (rates.length - 1 - i) * 96 / 29).toFixed(1)} ${(24.5 - 22 * r / top).toFixed(1)}`);
  $('spark').querySelector('.line').setAttribute('d', points.length ? `M${points.join('L')}` : '');
  $('spark').querySelector('.area').setAttribute('d', points.length ? `M${points[0].split(' ')[0]} 26L${points.join('L')}L96 26Z` : '');
  show('load');
}
document.addEventListener('visibilitychange', () => { seen = null; poll(); });

start();
poll();
})();
