#include "qkv/explain/page_parts.h"

namespace qkv::explain {

const char* const kPageStyle = R"css(
:root {
  --ground: #f3f4f7; --card: #ffffff; --ink: #1b1f27; --quiet: #5d6675; --line: #dfe3ea; --hover: #eef1f6;
  --tip: #1b1f27; --tip-ink: #ffffff; --tip-quiet: #aeb7c6; --shadow: 0 1px 2px #1b1f2712, 0 6px 20px #1b1f270a;
  --accent: #4a82e0; --accent-ink: #ffffff;
  color-scheme: light;
}
:root[data-theme="dark"] {
  --ground: #0d1016; --card: #14181f; --ink: #e7eaf0; --quiet: #98a2b3; --line: #272d38; --hover: #1d232d;
  --tip: #eef1f6; --tip-ink: #14181f; --tip-quiet: #5d6675; --shadow: none; --accent-ink: #0d1016;
  color-scheme: dark;
}
* { box-sizing: border-box; }
body {
  margin: 0; padding: 20px clamp(12px, 2vw, 32px) 32px; background: var(--ground); color: var(--ink);
  font: 14px/1.45 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif;
}
h1 { margin: 0; font-size: 21px; font-weight: 650; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { margin: 0; font-size: 15px; font-weight: 650; }
p { margin: 4px 0 0; }
.quiet { color: var(--quiet); font-size: 13px; }
.hint { font-size: 12px; margin-top: 10px; }
.side p { width: 0; min-width: 100%; }  /* the drawings set the width */
.notice { padding: 12px; }
.top { display: flex; justify-content: space-between; align-items: flex-start; gap: 16px; margin: 0 4px 16px; }
main { display: grid; grid-template-columns: minmax(300px, max-content) minmax(0, 1fr); gap: 16px; align-items: start; }
@media (max-width: 960px) { main { grid-template-columns: minmax(0, 1fr); } }
.card {
  background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: 16px; min-width: 0;
  box-shadow: var(--shadow);
}
.side { max-width: 520px; overflow-x: auto; }
.side h2 { margin: 18px 0 8px; }

button, select { font: inherit; color: inherit; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.plain, select {
  border: 1px solid var(--line); border-radius: 8px; padding: 5px 10px; background: var(--card);
}
.plain:hover, select:hover { background: var(--hover); }
.segments { display: inline-flex; border: 1px solid var(--line); border-radius: 9px; padding: 2px; gap: 2px; }
.segments button { border: 0; border-radius: 7px; padding: 5px 14px; background: none; color: var(--quiet); }
.segments button:hover { background: var(--hover); color: var(--ink); }
.segments button[aria-pressed="true"] { background: var(--accent); color: var(--accent-ink); font-weight: 600; }
.segments.small button { padding: 3px 10px; }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: 8px 14px; color: var(--quiet); font-size: 13px; }
.bar select { color: var(--ink); padding: 4px 6px; margin-left: 4px; }
.bar .plain { color: var(--ink); }
.push { margin-left: auto; }

.overview { display: grid; gap: 4px; width: max-content; align-items: center; }
.overview span { font-size: 11px; color: var(--quiet); text-align: center; font-variant-numeric: tabular-nums; }
.overview .row-name { padding-right: 6px; text-align: right; }
.thumb { display: block; padding: 0; border: 0; border-radius: 4px; background: none; line-height: 0; }
.thumb canvas { image-rendering: pixelated; border-radius: 3px; outline: 1px solid var(--line); outline-offset: 0; }
.thumb:hover canvas { outline-color: var(--quiet); }
.thumb[aria-current="true"] canvas { outline: 2px solid var(--accent); outline-offset: 1px; }
.thumb.mean { margin-left: 6px; }

.heading { display: flex; justify-content: space-between; align-items: center; gap: 16px; margin-top: 16px; }
.legend { display: flex; align-items: center; gap: 8px; font-size: 12px; color: var(--quiet); white-space: nowrap; }
.legend canvas { width: 120px; height: 10px; border-radius: 5px; border: 1px solid var(--line); }
.scroll { overflow-x: auto; margin-top: 8px; padding: 4px; }
.stage { position: relative; width: max-content; margin: 0 auto; border-radius: 4px; }
.stage canvas { display: block; }
.band, .cell-box { position: absolute; pointer-events: none; }
.band { background: color-mix(in srgb, var(--accent) 13%, transparent); border-radius: 3px; }
.cell-box { border: 2px solid var(--ink); border-radius: 3px; box-shadow: 0 0 0 1.5px var(--card); }

.tip {
  position: fixed; z-index: 2; pointer-events: none; max-width: 320px; padding: 8px 11px; border-radius: 8px;
  background: var(--tip); color: var(--tip-ink); font-size: 13px; line-height: 1.4; box-shadow: 0 4px 16px #0004;
}
.tip strong { display: block; font-size: 16px; font-variant-numeric: tabular-nums; }
.tip .pair { overflow-wrap: anywhere; }
.tip .place { color: var(--tip-quiet); font-size: 12px; }
.tip table { border-spacing: 0; margin-top: 4px; font-variant-numeric: tabular-nums; }
.tip td { padding: 0 10px 0 0; overflow-wrap: anywhere; }
.hidden-text { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
[hidden] { display: none !important; }
@media print { body { background: none; } .side, .bar, .hint, #theme { display: none; } main { display: block; } }
)css";

}  // namespace qkv::explain
