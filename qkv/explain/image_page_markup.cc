#include "qkv/explain/image_page.h"

namespace qkv::explain {

const char* const kImagePageMarkup = R"html(<main>
  <nav class="card side" aria-label="Which attention">
    <div id="labels" class="labels"></div>
    <h2>All heads</h2>
    <div id="overview" class="overview" role="group" aria-label="All heads; arrow keys move"></div>
    <p class="quiet hint">A row for each layer, a column for each head; then their mean, and the rollout: how much of what
      the token holds after this layer came from each patch, through all layers below. Arrow keys move.</p>
  </nav>
  <section class="card stage-card" aria-label="One head">
    <div class="bar">
      <label>Layer <select id="layer"></select></label>
      <label>Head <select id="head"></select></label>
      <div id="views" class="segments small" role="group" aria-label="View"></div>
      <label>Scale <select id="scale">
        <option value="range">lowest to highest</option>
        <option value="max">0 to highest</option>
        <option value="same">same for all</option>
      </select></label>
    </div>
    <div class="heading">
      <h2 id="what"></h2>
      <div class="legend" aria-hidden="true"><span id="legend-low"></span><canvas id="legend" width="256" height="1"></canvas><span
        id="legend-top"></span></div>
    </div>
    <p id="stats" class="quiet"></p>
    <div class="bar queries"><span>Query</span> <div id="queries" class="segments small" role="group"
      aria-label="Whose attention"></div> <span>or click on a patch</span>
      <label class="check push"><input id="smooth" type="checkbox"> Smooth</label>
      <button id="save" class="plain" type="button">Save PNG</button></div>
    <div id="scroll" class="scroll">
      <div id="stage" class="stage picture" tabindex="0" role="application">
        <canvas id="canvas"></canvas>
        <div id="query-box" class="cell-box query" hidden></div>
        <div id="cell-box" class="cell-box" hidden></div>
      </div>
    </div>
    <p class="quiet hint">The weights of a query sum to 1, over the patches and the tokens in front of them. Point at
      patches for the numbers; with Tab and the arrow keys the query moves.</p>
  </section>
</main>
)html";

}  // namespace qkv::explain
