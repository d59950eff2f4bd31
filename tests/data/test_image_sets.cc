// Images with classes from IDX files, CIFAR-binary files and class folders.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "qkv/base/error.h"
#include "qkv/base/files.h"
#include "qkv/data/images/cifar.h"
#include "qkv/data/images/idx.h"
#include "qkv/data/images/image_set.h"
#include "qkv/data/resize.h"
#include "tests/support/image_files.h"
#include "tests/support/scratch.h"

namespace {

using namespace qkv;
using namespace qkv::data;
using namespace qkv::testing;

std::string counted_bytes(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(i * 7 + 1);
  return bytes;
}

template <class Expected>
void expect_error(const std::function<void()>& action, const std::vector<std::string>& parts) {
  const std::string message = message_of<Expected>(action);
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "expected \"" << part << "\" in: " << message;
}

TEST(Idx, ReadsImagesAndLabels) {
  const Scratch scratch;
  const auto path = scratch.write("images", idx_images(2, 3, 4, counted_bytes(24)));
  const IdxImages images = read_idx_images(path);
  EXPECT_EQ(images.images, 2);
  EXPECT_EQ(images.height, 3);
  EXPECT_EQ(images.width, 4);
  ASSERT_EQ(images.pixels.size(), 24u);
  EXPECT_EQ(images.pixels[0], 1);
  EXPECT_EQ(images.pixels[23], 23 * 7 + 1);
  EXPECT_EQ(read_idx_labels(scratch.write("labels", idx_labels(3, "\x05\x09\x01"))),
            (std::vector<uint8_t>{5, 9, 1}));
}

TEST(Idx, RefusesDamagedFilesByName) {
  const Scratch scratch;
  const auto images = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    const auto path = scratch.write("bad-images", bytes);
    expect_error<DataError>([&] { read_idx_images(path); }, parts);
  };
  images(idx_labels(3, "abc"), {"bad-images: expected", "16 bytes", "found"});
  images(idx_labels(8, "abcdefgh"),
         {"bad-images: expected an IDX file of images, which begins with 0x00000803, "
          "found 0x00000801"});
  images("", {"bad-images: expected the header", "found a file of at most 0 bytes"});
  images(idx_images(2, 3, 4, counted_bytes(23)), {"bad-images: expected 2 images of 3 x 4, 24 bytes"});
  images(idx_images(2, 3, 4, counted_bytes(25)), {"the end of the file after 2 images of 3 x 4, found more"});
  images(idx_images(0, 3, 4, ""), {"expected 1 to 2147483647 images, found 0"});
  images(idx_images(2, 0, 4, "a"), {"sides of 1 to 16384 pixels, found 0 x 4"});
  // Sizes that would need petabytes are compared with the file's.
  images(idx_images(0x7FFFFFFF, 16384, 16384, "abc"),
         {"2147483647 images of 16384 x 16384", "at most 19 bytes"});
  images(idx_images(0xFFFFFFFF, 28, 28, "abc"), {"found 4294967295"});
  const auto labels = scratch.write("bad-labels", idx_labels(3, "ab"));
  expect_error<DataError>([&] { read_idx_labels(labels); }, {"bad-labels: expected 3 labels, 3 bytes"});
  EXPECT_THROW(read_idx_images(scratch / "none"), IoError);
}

TEST(Idx, RefusesTruncatedAndFalseGzip) {
  const std::filesystem::path shared = std::filesystem::path(QKV_SHARED_DATA) / "fashion_mnist";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "needs ../shared/data/fashion_mnist";
  const std::string whole = read_file(shared / "t10k-labels-idx1-ubyte.gz");
  const Scratch scratch;
  const auto cut = scratch.write("cut.gz", whole.substr(0, whole.size() / 2));
  expect_error<DataError>([&] { read_idx_labels(cut); }, {"cut.gz: expected", "truncated"});
  std::string flipped = whole;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 8);
  const auto damaged = scratch.write("damaged.gz", flipped);
  expect_error<DataError>([&] { read_idx_labels(damaged); }, {"damaged.gz"});
}

TEST(ReadImages, ReadsFashionMnist) {
  const std::filesystem::path shared = std::filesystem::path(QKV_SHARED_DATA) / "fashion_mnist";
  if (!std::filesystem::exists(shared)) GTEST_SKIP() << "needs ../shared/data/fashion_mnist";
  const ImageSet set = read_images({shared}, ImagePart::test);
  EXPECT_EQ(set.size(), 10000);
  EXPECT_EQ(set.channels, 1);
  EXPECT_EQ(set.height, 28);
  EXPECT_EQ(set.classes.size(), 10u);
  // The first label is 9 (an ankle boot); every class has 1,000 images.
  EXPECT_EQ(set.labels[0], 9);
  for (int32_t label = 0; label < 10; ++label) EXPECT_EQ(std::ranges::count(set.labels, label), 1000);
  const std::vector<ChannelMoments> moments = channel_moments(set);
  ASSERT_EQ(moments.size(), 1u);
  EXPECT_NEAR(moments[0].mean / 255, 0.2868, 1e-4);
  EXPECT_NEAR(moments[0].deviation / 255, 0.3525, 1e-3);
}

TEST(ReadImages, WantsALabelForEachImage) {
  const Scratch scratch;
  const ImageSource source{scratch.write("images", idx_images(3, 2, 2, counted_bytes(12))),
                           scratch.write("labels", idx_labels(2, std::string("\0\1", 2)))};
  expect_error<DataError>([&] { read_images(source, ImagePart::train); },
                          {"labels: expected 3 labels", "images's images, found 2"});
  expect_error<UsageError>(
      [&] { read_images({scratch.write("x-idx3-ubyte", idx_images(1, 2, 2, "abcd"))}, ImagePart::train); },
      {"x-idx3-ubyte: expected an IDX file of labels with it"});
  expect_error<IoError>([&] { read_images({scratch / "none"}, ImagePart::train); }, {"none: expected"});
}

TEST(ReadImages, LabelsAreOneOfTheKnownClasses) {
  const Scratch scratch;
  const ImageSource source{scratch.write("images", idx_images(2, 2, 2, counted_bytes(8))),
                           scratch.write("labels", idx_labels(2, std::string("\0\4", 2)))};
  EXPECT_EQ(read_images(source, ImagePart::test).classes,
            (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  expect_error<DataError>(
      [&] {
        read_images(source, ImagePart::test, {.classes = {"a", "b", "c", "d"}});
      },
      {"labels: image 2: expected a label of 0 to 3, the known classes, found 4"});
}

std::string cifar10_record(uint8_t label, uint8_t red) {
  std::string record(1, static_cast<char>(label));
  record.append(1024, static_cast<char>(red)).append(1024, '\2').append(1024, '\3');
  return record;
}

TEST(Cifar, ReadsBothKinds) {
  const Scratch scratch;
  scratch.write("ten/data_batch_1.bin", cifar10_record(7, 200) + cifar10_record(0, 100));
  scratch.write("ten/data_batch_2.bin", cifar10_record(9, 50));
  scratch.write("ten/test_batch.bin", cifar10_record(1, 60));
  const ImageSet ten = read_images({scratch / "ten"}, ImagePart::train);
  EXPECT_EQ(ten.labels, (std::vector<int32_t>{7, 0, 9}));
  EXPECT_EQ(ten.classes.size(), 10u);
  EXPECT_EQ(ten.channels, 3);
  EXPECT_EQ(ten.image(1)[0], 100);
  EXPECT_EQ(ten.image(1)[1024], 2);
  EXPECT_EQ(ten.image(2)[3071], 3);
  EXPECT_EQ(read_images({scratch / "ten"}, ImagePart::test).labels, (std::vector<int32_t>{1}));
  // Grey: (19595 * 200 + 38470 * 2 + 7471 * 3 + 32768) / 65536 = 61.8.
  EXPECT_EQ(read_images({scratch / "ten"}, ImagePart::train, {.channels = 1}).image(0)[17], 61);

  std::string names;
  for (int i = 0; i < 100; ++i) names += concat("kind", i, "\n");
  scratch.write("hundred/fine_label_names.txt", names);
  scratch.write("hundred/train.bin", std::string("\3") + cifar10_record(99, 70));
  const ImageSet hundred = read_images({scratch / "hundred"}, ImagePart::train);
  EXPECT_EQ(hundred.labels, (std::vector<int32_t>{99}));
  EXPECT_EQ(hundred.classes[99], "kind99");
  EXPECT_EQ(hundred.image(0)[0], 70);
}

TEST(Cifar, RefusesDamagedFilesByName) {
  const Scratch scratch;
  const auto refused = [&](const std::string& bytes, const std::vector<std::string>& parts) {
    const auto path = scratch.write("bad.bin", bytes);
    expect_error<DataError>([&] { read_images({path}, ImagePart::train); }, parts);
  };
  refused("", {"bad.bin: expected records of CIFAR-10 or CIFAR-100", "found 0 bytes"});
  refused(cifar10_record(1, 1).substr(1), {"multiple of 3073 or 3074 bytes, found 3072 bytes"});
  refused(cifar10_record(1, 1) + cifar10_record(10, 1),
          {"bad.bin: image 2: expected a label of 0 to 9, found 10"});
  refused("\x14" + cifar10_record(1, 1), {"image 1: expected a label of 0 to 19, found 20"});
  scratch.write("two/data_batch_1.bin", cifar10_record(1, 1));
  scratch.write("two/data_batch_2.bin", "\1" + cifar10_record(1, 1));
  expect_error<DataError>([&] { read_images({scratch / "two"}, ImagePart::train); },
                          {"data_batch_2.bin: expected records of CIFAR-10, a multiple of 3073"});
}

class ClassFolders : public ::testing::Test {
 protected:
  void image(const std::string& name, const Image& content) const {
    scratch_.write(name, encode_png(content));
  }
  ImageSet read(const ImageSetOptions& options = {}) const {
    return read_images({scratch_.path()}, ImagePart::train, options);
  }
  Scratch scratch_;
};

TEST_F(ClassFolders, AreReadInOrderOfNames) {
  image("dog/b.PNG", plain(2, 2, 1, 2, 3));
  image("dog/a.png", plain(2, 2, 4, 5, 6));
  image("cat/z.png", plain(2, 2, 7, 8, 9));
  scratch_.write("cat/notes.txt", "nothing");
  scratch_.write("cat/.hidden", "nothing");
  scratch_.write("README", "nothing");
  const ImageSet set = read();
  EXPECT_EQ(set.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(set.labels, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_EQ(set.other_files, 2);
  EXPECT_EQ(std::vector<uint8_t>(set.image(1).begin(), set.image(1).end()),
            (std::vector<uint8_t>{4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6}));
  EXPECT_EQ(to_image(set, 2), plain(2, 2, 1, 2, 3));
  // In the order of other classes.
  EXPECT_EQ(read({.classes = {"dog", "bird", "cat"}}).labels, (std::vector<int32_t>{2, 0, 0}));
  expect_error<DataError>(
      [&] {
        read({.classes = {"cat", "bird"}});
      },
      {"dog: expected one of the known classes (cat, bird), found 'dog'"});
}

TEST_F(ClassFolders, SizesMustAgreeOrBeMadeToAgree) {
  image("a/1.png", plain(2, 2, 10, 20, 30));
  image("b/2.png", plain(2, 3, 40, 50, 60));
  expect_error<DataError>([&] { read(); }, {"2.png: expected 2 x 2 pixels", "as in ", "1.png, found 2 x 3"});
  const ImageSet set =
      read({.channels = 1, .fit = [](const Image& one) { return resize(one, 4, 4, Resampling::bilinear); }});
  EXPECT_EQ(set.height, 4);
  EXPECT_EQ(set.channels, 1);
  // The grey of (10, 20, 30) is (19595 * 10 + 38470 * 20 + 7471 * 30 + 32768) / 65536 = 18.6.
  EXPECT_EQ(std::ranges::count(set.image(0), 18), 16);
}

TEST_F(ClassFolders, UnreadableFilesAreErrorsOrCounted) {
  image("a/1.png", plain(2, 2, 1, 2, 3));
  image("b/1.png", plain(2, 2, 1, 2, 3));
  scratch_.write("b/2.png", encode_png(plain(9, 9, 1, 2, 3)).substr(0, 40));
  expect_error<DataError>([&] { read(); }, {"b/2.png: expected a complete PNG file"});
  const ImageSet set = read({.skip_unreadable = true});
  EXPECT_EQ(set.size(), 2);
  EXPECT_EQ(set.unreadable, 1);
}

TEST_F(ClassFolders, WantClassesWithImages) {
  expect_error<DataError>([&] { read(); }, {"expected a folder for each class", "found an empty folder"});
  scratch_.write("lonely.png", "x");
  expect_error<DataError>([&] { read(); }, {"found other files"});
  scratch_.write("a/text", "x");
  expect_error<DataError>([&] { read(); }, {"/a: expected PNG or JPEG files, found none"});
}

TEST(HoldOut, SplitsEveryImageOnce) {
  ImageSet set{.channels = 1, .height = 1, .width = 2, .classes = {"a", "b"}};
  for (int i = 0; i < 20; ++i) {
    set.pixels.push_back(static_cast<uint8_t>(i));
    set.pixels.push_back(static_cast<uint8_t>(100 + i));
    set.labels.push_back(i % 2);
  }
  const auto [others, held] = hold_out(set, 6, 1);
  EXPECT_EQ(held.size(), 6);
  EXPECT_EQ(others.size(), 14);
  std::set<int> seen;
  for (const ImageSet* part : {&others, &held}) {
    for (int64_t i = 0; i < part->size(); ++i) {
      const int first = part->image(i)[0];
      EXPECT_EQ(part->image(i)[1], 100 + first);
      EXPECT_EQ(part->labels[static_cast<size_t>(i)], first % 2);
      seen.insert(first);
    }
  }
  EXPECT_EQ(seen.size(), 20u);
  const auto [same, again] = hold_out(set, 6, 1);
  EXPECT_EQ(fingerprint(again), fingerprint(held));
  EXPECT_NE(fingerprint(hold_out(set, 6, 2).second), fingerprint(held));
  EXPECT_THROW(hold_out(set, 20, 1), UsageError);
}

TEST(ChannelMoments, AreThoseOfTheChannel) {
  const ImageSet set{.channels = 2,
                     .height = 1,
                     .width = 2,
                     .pixels = {1, 3, 10, 10, 5, 7, 10, 10},
                     .labels = {0, 1},
                     .classes = {"a", "b"}};
  const std::vector<ChannelMoments> moments = channel_moments(set);
  EXPECT_DOUBLE_EQ(moments[0].mean, 4);
  EXPECT_DOUBLE_EQ(moments[0].deviation, std::sqrt(5.0));
  EXPECT_DOUBLE_EQ(moments[1].mean, 10);
  EXPECT_DOUBLE_EQ(moments[1].deviation, 0);
}

TEST(ToGrey, WeighsAsPillow) {
  // Image.new("RGB", (1, 1), colour).convert("L")
  const auto grey = [](uint8_t red, uint8_t green, uint8_t blue) {
    const Image image = to_grey(plain(1, 1, red, green, blue));
    EXPECT_EQ(image.pixels[0], image.pixels[2]);
    return int{image.pixels[1]};
  };
  EXPECT_EQ(grey(255, 0, 0), 76);
  EXPECT_EQ(grey(0, 255, 0), 150);
  EXPECT_EQ(grey(0, 0, 255), 29);
  EXPECT_EQ(grey(255, 255, 255), 255);
  for (int level = 0; level < 256; ++level) {
    const auto value = static_cast<uint8_t>(level);
    EXPECT_EQ(grey(value, value, value), level);
  }
}

}  // namespace
