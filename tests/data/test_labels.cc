// Files of labelled texts and of tagged words.

#include <gtest/gtest.h>

#include <set>

#include "qkv/base/error.h"
#include "qkv/data/labels/labelled_texts.h"
#include "qkv/data/labels/tagged_sentences.h"
#include "tests/support/scratch.h"

namespace qkv::data {
namespace {

using testing::expect_throw;
using testing::Scratch;

TEST(LabelledTexts, ReadsEachFormat) {
  const Scratch scratch;
  const auto read = [&](const std::string& content, TextFormat format = TextFormat::automatic) {
    return read_labelled_texts(scratch.write("file", content), format);
  };
  const LabelledTexts spaces = read("1 a fine film\n\n0 dull , dull .\r\n");
  ASSERT_EQ(spaces.items.size(), 2u);
  EXPECT_EQ(spaces.items[0].label, "1");
  EXPECT_EQ(spaces.items[0].first, "a fine film");
  EXPECT_EQ(spaces.items[1].first, "dull , dull .");
  EXPECT_EQ(spaces.items[1].line, 3);
  EXPECT_FALSE(spaces.pairs);
  const LabelledTexts tabs = read("very good\ta film\nbad\tno");
  EXPECT_EQ(tabs.items[0].label, "very good");
  EXPECT_EQ(tabs.items[1].first, "no");
  const LabelledTexts pairs = read("4.5\ta man\ta person\n0\tone\ttwo words\n");
  EXPECT_TRUE(pairs.pairs);
  EXPECT_EQ(pairs.items[1].second, "two words");
  const LabelledTexts json = read(
      "{\"label\": 3, \"text\": \"a\\tb\"}\n{\"text\": \"c\", \"label\": \"x y\", \"idx\": 7}\n"
      "{\"label\": 0.5, \"text\": \"d\"}\n");
  EXPECT_EQ(json.items[0].label, "3");
  EXPECT_EQ(json.items[0].first, "a\tb");
  EXPECT_EQ(json.items[1].label, "x y");
  EXPECT_EQ(json.items[2].label, "0.5");
  EXPECT_TRUE(read("{\"label\": 3, \"text\": \"a\", \"text_pair\": \"b\"}").pairs);
  // A given format decides, not the first line.
  EXPECT_EQ(read("{ a text\n", TextFormat::space).items[0].label, "{");
  EXPECT_EQ(read("a b\tc\n", TextFormat::space).items[0].first, "b\tc");
}

TEST(LabelledTexts, RefusesWhatIsWrongNamingTheLine) {
  const Scratch scratch;
  const auto refused = [&](const std::string& content, const std::string& message,
                           TextFormat format = TextFormat::automatic) {
    const auto file = scratch.write("file", content);
    expect_throw<DataError>(message, [&] { read_labelled_texts(file, format); });
  };
  refused("", "file: expected labelled texts, found none");
  refused("\n \n", "found none");
  refused("good\n", "file:1: expected the label, a space and the text, found 1 column");
  refused("1 good\nbad\n", "file:2: expected 2 columns as in the first line, found 1");
  refused("1\tgood\n0\n", "file:2: expected 2 columns as in the first line, found 1");
  refused("1\tgood\n0\ta\tb\n", "file:2: expected 2 columns as in the first line, found 3");
  refused("1\ta\tb\tc\n", "file:1: expected label<TAB>text or label<TAB>text<TAB>text, found 4 columns");
  refused("1\tgood\n0\t \n", "file:2: expected a text, found an empty one");
  refused("\tgood\n", "file:1: expected a label, found an empty one");
  refused("1 good\n0 \xFF\n", "line 2");
  refused("{\"label\": 1, \"text\": \"a\"}\n{\"label\": 1}\n", "file:2");
  refused("{\"label\": [1], \"text\": \"a\"}\n", "expected a label: a text or a number");
  refused("{\"label\": 1, \"text\": \"a\"}\n1\ta\n", "file:2");
  refused("1 good\n", "file:1: expected label<TAB>text or label<TAB>text<TAB>text, found 1 column",
          TextFormat::tab);
}

TEST(TaggedSentences, RefusesTablesOfOtherPrograms) {
  const testing::Scratch scratch;
  const auto refused = [&](const std::string& name, const std::string& content, const std::string& message) {
    const auto file = scratch.write(name, content);
    expect_throw<DataError>(message, [&] { read_tagged_sentences(file, {}); });
  };
  refused("words.csv", "word,tag\nA,DET\n", "words.csv: expected a word and its tag");
  for (const std::string header : {"word\ttag\n", "Token NER_tag\n"})
    refused("file", header + "A\tDET\n", "file:1: expected a word and its tag, found the names of columns");
  const auto good = scratch.write("tabs.csv", "A\tDET\nword\ttag\n");
  EXPECT_EQ(read_tagged_sentences(good, {}).words(), 2);
}

TEST(LabelledTexts, RefusesTablesOfOtherPrograms) {
  const testing::Scratch scratch;
  const auto csv = scratch.write("reviews.csv", "label,text\n1,a good film\n");
  expect_throw<DataError>("reviews.csv: expected label<TAB>text",
                          [&] { read_labelled_texts(csv, TextFormat::automatic); });
  EXPECT_EQ(read_labelled_texts(scratch.write("tabs.csv", "1\tgood\n"), TextFormat::tab).items.size(), 1u);
  for (const std::string header :
       {"label\ttext\n", "Label\tSentence\n", "sentiment review\n", "score\ttext\n"}) {
    const auto file = scratch.write("file", header + "1\tgood\n");
    expect_throw<DataError>("file:1: expected a label and its text, found the names of columns",
                            [&] { read_labelled_texts(file, TextFormat::automatic); });
  }
  EXPECT_EQ(read_labelled_texts(scratch.write("file", "1\tgood\nlabel\ttext\n"), TextFormat::automatic)
                .items.size(),
            2u);
}

TEST(TaggedSentences, ReadsColumnsAndJson) {
  const Scratch scratch;
  const auto read = [&](const std::string& content, const TaggedFormat& format = {}) {
    return read_tagged_sentences(scratch.write("file", content), format);
  };
  const TaggedSentences tabs = read("A\tDET\ncat\tNOUN\n\n\n#\tSYM\n7 000\tNUM");
  ASSERT_EQ(tabs.items.size(), 2u);
  EXPECT_EQ(tabs.items[0].words, (std::vector<std::string>{"A", "cat"}));
  EXPECT_EQ(tabs.items[0].tags, (std::vector<std::string>{"DET", "NOUN"}));
  EXPECT_EQ(tabs.items[1].words, (std::vector<std::string>{"#", "7 000"}));
  EXPECT_EQ(tabs.items[1].lines, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(tabs.words(), 4);
  const TaggedSentences conll2003 = read("-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects  VBZ I-VP O\n");
  ASSERT_EQ(conll2003.items.size(), 1u);
  EXPECT_EQ(conll2003.items[0].tags, (std::vector<std::string>{"B-ORG", "O"}));
  EXPECT_EQ(read("EU NNP I-NP B-ORG\n", {.tag_column = 2}).items[0].tags[0], "NNP");
  const TaggedSentences conllu = read(
      "# sent_id = 1\n# text = "
      "vámonos\n1-2\tvámonos\t_\t_\t_\n1\tvamos\tir\tVERB\t_\n2\tnos\tnosotros\tPRON\t_\n"
      "2.1\tx\ty\tZ\t_\n",
      {.word_column = 2, .tag_column = 4});
  EXPECT_EQ(conllu.items[0].words, (std::vector<std::string>{"vamos", "nos"}));
  EXPECT_EQ(conllu.items[0].tags, (std::vector<std::string>{"VERB", "PRON"}));
  // In the first column, 3-4 is a word.
  EXPECT_EQ(read("3-4\tNUM\n").items[0].words[0], "3-4");
  const TaggedSentences json =
      read("{\"tokens\": [\"a\", \"b c\"], \"tags\": [3, \"X\"]}\n{\"words\": [\"d\"], \"tags\": [\"Y\"]}\n");
  ASSERT_EQ(json.items.size(), 2u);
  EXPECT_EQ(json.items[0].words[1], "b c");
  EXPECT_EQ(json.items[0].tags, (std::vector<std::string>{"3", "X"}));
}

TEST(TaggedSentences, RefusesWhatIsWrongNamingTheLine) {
  const Scratch scratch;
  const auto refused = [&](const std::string& content, const std::string& message,
                           const TaggedFormat& format = {}) {
    const auto file = scratch.write("file", content);
    expect_throw<DataError>(message, [&] { read_tagged_sentences(file, format); });
  };
  refused("", "file: expected tagged words, found none");
  refused("# comment\n\n", "found none");
  refused("A\tDET\ncat\n", "file:2: expected at least 2 columns (word and tag), found 1");
  refused("A\tDET\n", "file:1: expected at least 4 columns (word and tag), found 2", {.tag_column = 4});
  refused("A\tDET\ncat\t\n", "file:2: expected a tag, found an empty one");
  refused("\tDET\n", "file:1: expected a word, found an empty one");
  refused("A\tDET\n\xC3\tNOUN\n", "line 2");
  refused("{\"words\": [\"a\", \"b\"], \"tags\": [\"X\"]}\n",
          "file:1: expected as many tags as words, found 1 and 2");
  const auto file = scratch.write("file", "A\tDET\n");
  EXPECT_THROW(read_tagged_sentences(file, {.word_column = 0}), UsageError);
  EXPECT_THROW(read_tagged_sentences(file, {.word_column = 2, .tag_column = 2}), UsageError);
}

TEST(LabelledTexts, ReadsRealFiles) {
  const std::filesystem::path shared = QKV_SHARED_DATA;
  if (!std::filesystem::exists(shared / "sst2") || !std::filesystem::exists(shared / "ud_ewt"))
    GTEST_SKIP() << "needs ../shared/data/sst2 and ud_ewt";
  const LabelledTexts texts = read_labelled_texts(shared / "sst2/stsa.binary.train", TextFormat::automatic);
  EXPECT_EQ(texts.items.size(), 6920u);
  std::set<std::string> labels;
  for (const LabelledText& item : texts.items) labels.insert(item.label);
  EXPECT_EQ(labels, (std::set<std::string>{"0", "1"}));
  const TaggedSentences sentences = read_tagged_sentences(shared / "ud_ewt/train.conll", {});
  EXPECT_EQ(sentences.items.size(), 12544u);
  std::set<std::string> tags;
  for (const TaggedSentence& item : sentences.items) tags.insert(item.tags.begin(), item.tags.end());
  EXPECT_EQ(tags.size(), 17u);
}

}  // namespace
}  // namespace qkv::data
