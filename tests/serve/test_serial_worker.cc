// Jobs that run one after another: places in the queue, clients that leave, deadlines.

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "qkv/serve/error.h"
#include "qkv/serve/work/serial_worker.h"

namespace {

using namespace qkv;
using serve::CallHandle;
using serve::SerialWorker;

CallHandle call_of(const std::string& client, std::chrono::milliseconds time = std::chrono::minutes(1)) {
  return std::make_shared<serve::Call>(client, serve::Clock::now() + time);
}

// A worker whose first job lasts until open().
class SerialWorkers : public ::testing::Test {
 protected:
  SerialWorkers() {
    submit(call_of("first"), [this, opened = gate_.get_future().share()] {
      began_.set_value();
      opened.wait();
    });
    began_.get_future().wait();
  }
  void submit(
      const CallHandle& call, std::function<void()> run = [] {}) {
    const auto end = std::make_shared<std::promise<std::string>>();
    ends_.push_back(end->get_future());
    worker_.submit(call, {.run =
                              [end, run = std::move(run)] {
                                run();
                                end->set_value("done");
                              },
                          .on_failed =
                              [end](const std::exception_ptr& error) {
                                try {
                                  std::rethrow_exception(error);
                                } catch (const std::exception& reason) {
                                  end->set_value(reason.what());
                                }
                              }});
  }
  void open() { gate_.set_value(); }

  std::promise<void> gate_, began_;
  std::vector<std::future<std::string>> ends_;
  SerialWorker worker_{3};
};

TEST_F(SerialWorkers, AClientThatLeavesGivesItsPlaceToOthers) {
  const CallHandle leaving = call_of("a");
  submit(leaving);
  submit(call_of("a"));
  submit(call_of("a"));
  EXPECT_THROW(submit(call_of("a")), serve::QueueFull);
  leaving->cancel();
  EXPECT_EQ(worker_.counters().waiting, 2);
  EXPECT_EQ(worker_.counters().cancelled, 1);
  submit(call_of("a"));
  EXPECT_THROW(submit(call_of("a")), serve::QueueFull);
  EXPECT_NO_THROW(submit(call_of("b"))) << "one client does not lock the others out";
  open();
  EXPECT_THROW(ends_[1].get(), std::future_error) << "neither run nor failed";
  for (const size_t i : {0, 2, 3, 5, 7}) EXPECT_EQ(ends_[i].get(), "done") << i;
}

TEST_F(SerialWorkers, APassedDeadlineIsAnError) {
  const CallHandle late = call_of("a", std::chrono::milliseconds(0)),
                   dropped = call_of("b", std::chrono::milliseconds(0));
  submit(late);
  submit(dropped);
  submit(call_of("c"));
  dropped->cancel();  // as its exchange does, which has answered
  EXPECT_EQ(worker_.counters().expired, 1);
  open();
  EXPECT_NE(ends_[1].get().find("deadline"), std::string::npos);
  EXPECT_EQ(ends_[3].get(), "done");
  EXPECT_EQ(worker_.counters().expired, 2);
  EXPECT_EQ(worker_.counters().cancelled, 0);
}

// Work in parts asks between them.
TEST_F(SerialWorkers, WorkUnderWayEndsWithItsClient) {
  const CallHandle leaving = call_of("a"), late = call_of("b", std::chrono::milliseconds(50));
  std::atomic<int> parts = 0;
  submit(leaving, [&] {
    while (true) {
      leaving->require_wanted();
      if (++parts == 3) leaving->cancel();
    }
  });
  submit(late, [&] {
    while (true) late->require_wanted();
  });
  submit(call_of("c"));
  open();
  EXPECT_EQ(ends_[3].get(), "done");
  EXPECT_EQ(parts, 3);
  EXPECT_THROW(ends_[1].get(), std::future_error);
  EXPECT_NE(ends_[2].get().find("deadline"), std::string::npos);
  EXPECT_EQ(worker_.counters().cancelled, 1);
  EXPECT_EQ(worker_.counters().expired, 1);
}

}  // namespace
