#include "qkv/explain/image_page.h"

namespace qkv::explain {

const char* const kImagePageStyle = R"css(
:root { --accent: #b8336a; --accent-ink: #ffffff; }
:root[data-theme="dark"] { --accent: #f0788c; --accent-ink: #14181f; }
.side { max-width: 640px; }
.side h2:first-child, .labels:empty + h2 { margin-top: 0; }
.labels { display: grid; grid-template-columns: max-content 1fr max-content; gap: 4px 10px; align-items: center; }
.labels .name { font-weight: 600; overflow-wrap: anywhere; max-width: 240px; }
.labels .name ~ .name { font-weight: 400; color: var(--quiet); }
.labels .share { height: 6px; border-radius: 3px; background: var(--line); overflow: hidden; }
.labels .share i { display: block; height: 100%; border-radius: 3px; background: var(--accent); }
.labels .number { font-variant-numeric: tabular-nums; font-size: 13px; color: var(--quiet); text-align: right; }
.overview { gap: 5px; }
.thumb canvas { image-rendering: auto; border-radius: 4px; }
.check { display: inline-flex; align-items: center; gap: 5px; }
.check input { accent-color: var(--accent); margin: 0; }
.queries { margin-top: 10px; }
.picture { cursor: crosshair; overflow: hidden; border-radius: 8px; }
.picture canvas { border-radius: 8px; }
.cell-box { border: 1.5px solid #ffffffcc; box-shadow: 0 0 0 1px #0009, inset 0 0 0 1px #0006; border-radius: 2px; }
.cell-box.query { border: 2px solid #ffffff; box-shadow: 0 0 0 2px var(--accent), 0 0 14px #000a; }
)css";

}  // namespace qkv::explain
