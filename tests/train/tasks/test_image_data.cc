// Image classification's data: batches, normalized pixels, mixup, held-out images, refused images and
// settings.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "qkv/ops/tape.h"
#include "tests/train/image_run.h"

namespace qkv::train {
namespace {

using namespace qkv::testing;  // NOLINT(google-build-using-namespace)

TEST_F(ImageTraining, BatchesAreAFunctionOfThePosition) {
  ImageJob wanted = job("out");
  wanted.task.mixup = 1;
  const std::unique_ptr<Task> task = task_of(wanted);
  const auto all = task->batches(5, {});
  EXPECT_EQ(all->batches_in_epoch(), 6);
  std::vector<std::unique_ptr<Batch>> first;
  std::vector<data::CursorState> states;
  for (int i = 0; i < 9; ++i) {
    states.push_back(all->state());
    first.push_back(all->next());
  }
  for (const size_t i : {0u, 3u, 7u}) {
    const auto again = task->batches(5, states[i])->next();
    const auto &a = dynamic_cast<const ImageBatch&>(*first[i]), &b = dynamic_cast<const ImageBatch&>(*again);
    EXPECT_EQ(a.images, b.images);
    EXPECT_EQ(a.weights, b.weights);
    EXPECT_TRUE(std::ranges::equal(a.pixels.values(), b.pixels.values()));
    EXPECT_EQ(a.size.items, 16);
    EXPECT_EQ(a.size.labels, 16);
  }
  // Each epoch has every image once, in another order.
  std::vector<int64_t> images;
  for (size_t i = 0; i < 6; ++i) {
    const auto& batch = dynamic_cast<const ImageBatch&>(*first[i]);
    images.insert(images.end(), batch.images.begin(), batch.images.end());
  }
  EXPECT_FALSE(std::ranges::is_sorted(images));
  std::ranges::sort(images);
  EXPECT_EQ(images.size(), 96u);
  EXPECT_EQ(std::ranges::adjacent_find(images), images.end());
  EXPECT_NE(dynamic_cast<const ImageBatch&>(*task->batches(6, {})->next()).images,
            dynamic_cast<const ImageBatch&>(*first[0]).images);
}

TEST_F(ImageTraining, PixelsAreNormalizedByTheTrainingSet) {
  ImageJob wanted = job("out");
  wanted.task.augment = {};
  const std::unique_ptr<Task> task = task_of(wanted);
  const auto stream = task->batches(1, {});
  double sum = 0, squares = 0, count = 0;
  for (int i = 0; i < 6; ++i) {
    const std::unique_ptr<Batch> batch = stream->next();
    for (const float x : dynamic_cast<const ImageBatch&>(*batch).pixels.values()) {
      sum += static_cast<double>(x);
      squares += static_cast<double>(x) * static_cast<double>(x);
      ++count;
    }
  }
  EXPECT_EQ(count, 96 * kImageSide * kImageSide);
  EXPECT_NEAR(sum / count, 0, 1e-5);
  EXPECT_NEAR(squares / count, 1, 1e-5);
}

TEST_F(ImageTraining, MixupMixesImagesAndLosses) {
  ImageJob plain = job("out"), mixed = job("out");
  for (ImageJob* one : {&plain, &mixed}) {
    one->shape.dropout = 0;
    one->task.augment = {};
  }
  mixed.task.mixup = 0.7f;
  const std::unique_ptr<Task> task = task_of(mixed);
  const auto own = task->batches(5, {})->next(), other = task_of(plain)->batches(5, {})->next();
  const auto& batch = dynamic_cast<const ImageBatch&>(*own);
  const auto& whole = dynamic_cast<const ImageBatch&>(*other);
  ASSERT_EQ(batch.images, whole.images);
  ASSERT_EQ(batch.weights.size(), 16u);
  constexpr size_t kPixels = size_t{kImageSide} * kImageSide;
  for (size_t i = 0; i < 16; ++i) {
    const size_t partner = (i + 1) % 16;
    EXPECT_EQ(batch.other_labels[i], whole.labels[partner]);
    for (const size_t at : {size_t{0}, size_t{29}, kPixels - 1}) {
      const float x = whole.pixels.values()[i * kPixels + at],
                  y = whole.pixels.values()[partner * kPixels + at];
      EXPECT_FLOAT_EQ(batch.pixels.values()[i * kPixels + at],
                      batch.weights[i] * x + (1 - batch.weights[i]) * y);
    }
  }
  // The loss is the cross-entropy with the mixed, smoothed labels.
  task->initialise(2);
  nn::ForwardContext context;
  Tape tape;
  const BatchLoss loss = task->loss(batch, {.items = 32, .units = 32, .labels = 32}, context);
  const auto& model = dynamic_cast<const ImageTask&>(*task).model();
  nn::ForwardContext plain_context;
  const Variable logits = model.classifier_logits(model(batch.pixels, plain_context),
                                                  Offsets::uniform(16, model.config().tokens()));
  double expected = 0;
  for (size_t i = 0; i < 16; ++i) {
    const auto a = static_cast<double>(logits.value().values()[2 * i]);
    const auto b = static_cast<double>(logits.value().values()[2 * i + 1]);
    const double total = std::log(std::exp(a) + std::exp(b)), weight = static_cast<double>(batch.weights[i]);
    double first = 0;  // probability of class 0 in the label
    first += weight * (batch.labels[i] == 0 ? 1 : 0) + (1 - weight) * (batch.other_labels[i] == 0 ? 1 : 0);
    first = 0.9 * first + 0.05;
    expected -= first * (a - total) + (1 - first) * (b - total);
  }
  EXPECT_NEAR(read(loss.curves).at(0).sum, expected, 1e-4);
  EXPECT_EQ(loss.curves.at(0).count, 16);
  EXPECT_NEAR(static_cast<double>(loss.loss.value().item()), expected / 32, 1e-5);
}

TEST_F(ImageTraining, HoldsOutValidationImages) {
  ImageJob wanted = job("out");
  wanted.valid = {};
  wanted.reading.hold_out = 20;
  const std::unique_ptr<Task> task = task_of(wanted);
  EXPECT_EQ(task->info().train_items, 76);
  EXPECT_EQ(task->info().valid_items, 20);
  wanted.reading.hold_out = 96;
  expect_throw<UsageError>("data.hold_out: expected fewer than the 96 training images, found 96",
                           [&] { task_of(wanted); });
}

TEST_F(ImageTraining, RefusesBadSettingsByName) {
  const auto refused = [&](const std::function<void(ImageJob&)>& change) {
    ImageJob one = job("out");
    change(one);
    return message_of<UsageError>([&] { one.check(); });
  };
  const auto expect = [&](const std::function<void(ImageJob&)>& change, const std::string& part) {
    const std::string message = refused(change);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect([](ImageJob& one) { one.train = {}; }, "data.train: expected a folder or a file");
  expect([](ImageJob& one) { one.task.batch_images = 0; }, "train.batch_images: expected 1 or more, found 0");
  expect([](ImageJob& one) { one.task.mixup = -1; }, "augment.mixup: expected 0 to 100, found -1");
  expect([](ImageJob& one) { one.task.patch_dropout = 1; },
         "train.patch_dropout: expected 0 to below 1, found 1");
  expect([](ImageJob& one) { one.patch = 0; }, "model.patch: expected 1 to");
  expect([](ImageJob& one) { one.reading.resize = 30; },
         "data.resize: expected a multiple of the patches' 4, found 30");
  expect([](ImageJob& one) { one.reading.channels = 2; }, "data.channels: expected 0, 1 or 3, found 2");
  expect([](ImageJob& one) { one.reading.hold_out = 5; }, "data.hold_out: expected 0 with validation");
  expect(
      [](ImageJob& one) {
        one.valid = {};
        one.options.patience = 2;
      },
      "train.patience: expected 0 without validation images, found 2");
  ImageJob missing = job("out");
  missing.train.images = scratch_ / "nowhere";
  expect_throw<IoError>("nowhere: expected a file or a folder", [&] { missing.check(); });
  ImageJob unknown = job("out");
  EXPECT_FALSE(unknown.set_field("model.key_heads", "2")) << "without meaning for a ViT";
  EXPECT_TRUE(unknown.set_field("augment.crop_fill", "reflect"));
  EXPECT_EQ(unknown.task.augment.crop_fill, data::CropFill::reflect);
}

TEST_F(ImageTraining, RefusesUnfitImagesByName) {
  const auto expect = [&](const std::function<void(ImageJob&)>& change,
                          const std::vector<std::string>& parts) {
    ImageJob one = job("out");
    change(one);
    std::string message;
    try {
      task_of(one);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      message = error.what();
    }
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  };
  scratch_.write("one-labels", idx_labels(96, std::string(96, '\3')));
  expect([&](ImageJob& one) { one.train.labels = scratch_ / "one-labels"; },
         {"train-images: expected images of two or more classes, found 96 images of the class '3' only"});
  scratch_.write("new-labels", idx_labels(30, std::string(29, '\1') + '\2'));
  expect([&](ImageJob& one) { one.valid.labels = scratch_ / "new-labels"; },
         {"new-labels: image 30: expected a label of 0 to 1, the known classes, found 2"});
  expect([](ImageJob& one) { one.patch = 3; }, {"model.patch: expected a divisor of the images' side, 8"});
  scratch_.write("wide-images", idx_images(2, 4, 6, std::string(48, '\5')));
  scratch_.write("wide-labels", idx_labels(2, std::string("\0\1", 2)));
  expect(
      [&](ImageJob& one) {
        one.train = {scratch_ / "wide-images", scratch_ / "wide-labels"};
      },
      {"wide-images: expected square images, 6 x 6 pixels, or a size to resize images to (data.resize), "
       "found "
       "4 x 6"});
  expect(
      [&](ImageJob& one) {
        one.valid = {scratch_ / "wide-images", scratch_ / "wide-labels"};
      },
      {"wide-images: expected the training images' size, 8 x 8 pixels", "found 4 x 6"});
  ImageJob resized = job("out");
  resized.train = resized.valid = {scratch_ / "wide-images", scratch_ / "wide-labels"};
  resized.reading.resize = 12;
  EXPECT_EQ(dynamic_cast<const ImageTask&>(*task_of(resized)).model().config().height, 12);
  scratch_.write("names", "cat\ncat\n");
  expect([&](ImageJob& one) { one.reading.label_names = scratch_ / "names"; },
         {"names:2: expected the name of another class, found 'cat' again"});
}

}  // namespace
}  // namespace qkv::train
