#include "qkv/pipelines/speech/languages.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

namespace qkv::pipelines {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;
constexpr std::array kNames{
    Pair{"af", "afrikaans"},      Pair{"am", "amharic"},     Pair{"ar", "arabic"},
    Pair{"as", "assamese"},       Pair{"az", "azerbaijani"}, Pair{"ba", "bashkir"},
    Pair{"be", "belarusian"},     Pair{"bg", "bulgarian"},   Pair{"bn", "bengali"},
    Pair{"bo", "tibetan"},        Pair{"br", "breton"},      Pair{"bs", "bosnian"},
    Pair{"ca", "catalan"},        Pair{"cs", "czech"},       Pair{"cy", "welsh"},
    Pair{"da", "danish"},         Pair{"de", "german"},      Pair{"el", "greek"},
    Pair{"en", "english"},        Pair{"es", "spanish"},     Pair{"et", "estonian"},
    Pair{"eu", "basque"},         Pair{"fa", "persian"},     Pair{"fi", "finnish"},
    Pair{"fo", "faroese"},        Pair{"fr", "french"},      Pair{"gl", "galician"},
    Pair{"gu", "gujarati"},       Pair{"ha", "hausa"},       Pair{"haw", "hawaiian"},
    Pair{"he", "hebrew"},         Pair{"hi", "hindi"},       Pair{"hr", "croatian"},
    Pair{"ht", "haitian creole"}, Pair{"hu", "hungarian"},   Pair{"hy", "armenian"},
    Pair{"id", "indonesian"},     Pair{"is", "icelandic"},   Pair{"it", "italian"},
    Pair{"ja", "japanese"},       Pair{"jw", "javanese"},    Pair{"ka", "georgian"},
    Pair{"kk", "kazakh"},         Pair{"km", "khmer"},       Pair{"kn", "kannada"},
    Pair{"ko", "korean"},         Pair{"la", "latin"},       Pair{"lb", "luxembourgish"},
    Pair{"ln", "lingala"},        Pair{"lo", "lao"},         Pair{"lt", "lithuanian"},
    Pair{"lv", "latvian"},        Pair{"mg", "malagasy"},    Pair{"mi", "maori"},
    Pair{"mk", "macedonian"},     Pair{"ml", "malayalam"},   Pair{"mn", "mongolian"},
    Pair{"mr", "marathi"},        Pair{"ms", "malay"},       Pair{"mt", "maltese"},
    Pair{"my", "myanmar"},        Pair{"ne", "nepali"},      Pair{"nl", "dutch"},
    Pair{"nn", "nynorsk"},        Pair{"no", "norwegian"},   Pair{"oc", "occitan"},
    Pair{"pa", "punjabi"},        Pair{"pl", "polish"},      Pair{"ps", "pashto"},
    Pair{"pt", "portuguese"},     Pair{"ro", "romanian"},    Pair{"ru", "russian"},
    Pair{"sa", "sanskrit"},       Pair{"sd", "sindhi"},      Pair{"si", "sinhala"},
    Pair{"sk", "slovak"},         Pair{"sl", "slovenian"},   Pair{"sn", "shona"},
    Pair{"so", "somali"},         Pair{"sq", "albanian"},    Pair{"sr", "serbian"},
    Pair{"su", "sundanese"},      Pair{"sv", "swedish"},     Pair{"sw", "swahili"},
    Pair{"ta", "tamil"},          Pair{"te", "telugu"},      Pair{"tg", "tajik"},
    Pair{"th", "thai"},           Pair{"tk", "turkmen"},     Pair{"tl", "tagalog"},
    Pair{"tr", "turkish"},        Pair{"tt", "tatar"},       Pair{"uk", "ukrainian"},
    Pair{"ur", "urdu"},           Pair{"uz", "uzbek"},       Pair{"vi", "vietnamese"},
    Pair{"yi", "yiddish"},        Pair{"yo", "yoruba"},      Pair{"yue", "cantonese"},
    Pair{"zh", "chinese"}};
// Further names.
constexpr std::array kOtherNames{
    Pair{"my", "burmese"},       Pair{"ca", "valencian"}, Pair{"nl", "flemish"},   Pair{"ht", "haitian"},
    Pair{"lb", "letzeburgesch"}, Pair{"ps", "pushto"},    Pair{"pa", "panjabi"},   Pair{"ro", "moldavian"},
    Pair{"ro", "moldovan"},      Pair{"si", "sinhalese"}, Pair{"es", "castilian"}, Pair{"zh", "mandarin"}};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace

std::string language_code(std::string_view name) {
  std::string text = lower(name);
  for (const std::span<const Pair> names :
       {std::span<const Pair>(kNames), std::span<const Pair>(kOtherNames)}) {
    const auto found = std::ranges::find(names, text, &Pair::second);
    if (found != names.end()) return std::string(found->first);
  }
  return text;
}

std::string language_name(std::string_view code) {
  const auto found = std::ranges::find(kNames, code, &Pair::first);
  return std::string(found == kNames.end() ? code : found->second);
}

}  // namespace qkv::pipelines
