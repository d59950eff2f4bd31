// qkv evaluate image

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/cli/messages.h"
#include "apps/command.h"
#include "apps/tasks/evaluations.h"
#include "apps/terminal.h"
#include "qkv/base/error.h"
#include "qkv/base/parallel.h"
#include "qkv/pipelines/images/images.h"
#include "qkv/train/tasks/image/image_scores.h"

namespace qkv::apps {
namespace {

constexpr size_t kMaxColumns = 20;  // of a printed confusion matrix

struct EvaluateImageArguments : EvaluationArguments {
  std::string labels;
  int64_t batch_images = 64;
  bool skip_unreadable = false;
};

data::ImageSet read(const EvaluateImageArguments& arguments, const pipelines::ImageClassifier& classifier) {
  const models::ImageProcessor& processor = classifier.processor();
  data::ImageSet set = data::read_images(
      {arguments.test, arguments.labels}, data::ImagePart::test,
      {.channels = processor.config().channels,
       .fit = [&processor](const data::Image& image) { return processor.resize_and_crop(image); },
       .classes = classifier.model().config().labels,
       .skip_unreadable = arguments.skip_unreadable});
  if (set.unreadable > 0) {
    say(concat(arguments.test, ": ", set.unreadable, " of ", set.size() + set.unreadable,
               " image files cannot be read and were left out"));
  }
  if (set.other_files > 0) {
    say(concat(arguments.test, ": ", counted(set.other_files, "files"),
               " of other formats than PNG and JPEG left out"));
  }
  return set;
}

std::string share(int64_t part, int64_t whole) {
  return whole == 0 ? "-" : fixed(static_cast<double>(part) / static_cast<double>(whole), 4);
}

// A row per class: how many of its images were found, and how many of those found belong to it.
std::string class_table(const train::ImageScores& scores, const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows{
      {"class", "images", "recall", "precision", "most often taken for"}};
  for (size_t c = 0; c < classes.size(); ++c) {
    const std::vector<int64_t>& row = scores.confusion[c];
    int64_t images = 0, found = 0;
    size_t other = c == 0 ? 1 : 0;
    for (size_t k = 0; k < classes.size(); ++k) {
      images += row[k];
      found += scores.confusion[k][c];
      if (k != c && row[k] > row[other]) other = k;
    }
    const bool mistaken = other < row.size() && row[other] > 0;
    rows.push_back({classes[c], grouped(images), share(row[c], images), share(row[c], found),
                    mistaken ? concat(classes[other], " (", grouped(row[other]), ")") : "-"});
  }
  return table_text(rows);
}

std::string confusion_table(const train::ImageScores& scores, const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows{{"true \\ predicted"}};
  for (const std::string& name : classes) rows.front().push_back(name);
  for (size_t c = 0; c < classes.size(); ++c) {
    rows.push_back({classes[c]});
    for (const int64_t count : scores.confusion[c]) rows.back().push_back(std::to_string(count));
  }
  return table_text(rows);
}

void print(const train::ImageScores& scores, const std::vector<std::string>& classes) {
  std::vector<std::vector<std::string>> rows{{"accuracy", fixed(scores.accuracy, 4)}};
  if (classes.size() > 5) rows.push_back({"top-5 accuracy", fixed(scores.top5_accuracy, 4)});
  rows.push_back({"loss", fixed(scores.loss, 4)});
  std::cout << table_text(rows) << '\n' << class_table(scores, classes);
  if (classes.size() <= kMaxColumns) std::cout << '\n' << confusion_table(scores, classes);
}

void evaluate(const EvaluateImageArguments& arguments) {
  const pipelines::ImageClassifier classifier(arguments.model, {}, arguments.load);
  const std::vector<std::string>& classes = classifier.model().config().labels;
  const data::ImageSet set = read(arguments, classifier);
  const auto started = std::chrono::steady_clock::now();
  const train::ImageScores scores =
      train::score_images(classifier.model(), classifier.processor(), set, arguments.batch_images).value();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const auto speed = static_cast<int64_t>(static_cast<double>(scores.images) / std::max(seconds, 1e-9));
  say(concat(counted(scores.images, "images"), " in ", fixed(seconds, 2), " s: ", grouped(speed),
             " images/s (", counted(threads(), "threads"), ")"));
  if (!arguments.json) return print(scores, classes);
  nlohmann::ordered_json result{
      {"images", scores.images},      {"accuracy", scores.accuracy}, {"top5_accuracy", scores.top5_accuracy},
      {"loss", scores.loss},          {"classes", classes},          {"confusion", scores.confusion},
      {"unreadable", set.unreadable}, {"seconds", seconds}};
  if (classes.size() <= 5) result.erase("top5_accuracy");
  std::cout << result.dump(2) << '\n';
}

}  // namespace

void add_image_evaluation(Command& group) {
  Command* command = add_command(
      group, "image",
      "Classify test images and compare with their classes. Prints the share of right answers (accuracy),\n"
      "the share of images whose class is among the five likeliest (top-5), the cross-entropy, and the\n"
      "confusion matrix; the speed on stderr.",
      "qkv evaluate image model --test t10k-images-idx3-ubyte.gz --test-labels t10k-labels-idx1-ubyte.gz");
  const auto arguments = std::make_shared<EvaluateImageArguments>();
  add_evaluation_arguments(
      *command, *arguments, "DIR|FILE",
      "Images in any of the forms of qkv train image --train; of MNIST's and CIFAR's files the test\n"
      "files");
  add_option(*command, "--test-labels", arguments->labels, "FILE",
             "IDX file of the images' classes (default: none)");
  add_option(*command, "--batch-images", arguments->batch_images, "IMAGES",
             "Images per batch: affects memory and speed, not results")
      ->check(in_range<int64_t>(1, 65536));
  command->add_flag("--skip-unreadable", arguments->skip_unreadable,
                    "Leave out and count image files that cannot be decoded");
  command->callback([arguments] { evaluate(*arguments); });
}

}  // namespace qkv::apps
