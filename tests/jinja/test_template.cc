#include <gtest/gtest.h>

#include "qkv/base/error.h"
#include "qkv/jinja/template.h"

namespace {

using namespace qkv;
using namespace qkv::jinja;

std::string rendered(std::string_view source, const Dict& context = {}) {
  return Template(source, "chat_template").render(context);
}

TEST(Template, RendersAConversation) {
  Dict context;
  context.set(
      "messages",
      Value::of_json(parse_json(
          R"([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}])", "messages")));
  context.set("add_generation_prompt", true);
  EXPECT_EQ(rendered("{%- for m in messages %}\n{{ '<' + m.role + '>' + m['content'] | trim }}\n{% endfor %}"
                     "{% if add_generation_prompt %}<assistant>{% endif %}",
                     context),
            "<user>Hi\n<assistant>Yes?\n<assistant>");
}

}  // namespace
