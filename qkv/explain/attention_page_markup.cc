#include "qkv/explain/attention_page.h"

namespace qkv::explain {

const char* const kPageMarkup = R"html(<main>
  <nav class="card side" aria-label="Which attention">
    <div id="parts" class="segments" role="group" aria-label="Part of the model"></div>
    <p id="about" class="quiet"></p>
    <h2>All heads</h2>
    <div id="overview" class="overview" role="group" aria-label="All heads; arrow keys move"></div>
    <p class="quiet hint">A row for each layer, a column for each head, and their mean. Arrow keys move.</p>
  </nav>
  <section class="card stage-card" aria-label="One head">
    <div class="bar">
      <label>Layer <select id="layer"></select></label>
      <label>Head <select id="head"></select></label>
      <div id="views" class="segments small" role="group" aria-label="View"></div>
      <label>Colour <select id="scale">
        <option value="linear">0 to 1</option>
        <option value="root">square root</option>
        <option value="max">0 to largest</option>
      </select></label>
      <button id="save" class="plain push" type="button">Save PNG</button>
    </div>
    <div class="heading">
      <h2 id="what"></h2>
      <div class="legend" aria-hidden="true"><span>0</span><canvas id="legend" width="256" height="1"></canvas><span
        id="legend-top">1</span></div>
    </div>
    <p id="stats" class="quiet"></p>
    <div id="scroll" class="scroll">
      <div id="stage" class="stage" tabindex="0" role="application">
        <canvas id="canvas"></canvas>
        <div id="row-band" class="band" hidden></div>
        <div id="column-band" class="band" hidden></div>
        <div id="cell-box" class="cell-box" hidden></div>
      </div>
    </div>
    <p class="quiet hint" id="axes"></p>
  </section>
</main>
)html";

}  // namespace qkv::explain
