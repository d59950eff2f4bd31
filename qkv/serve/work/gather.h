#pragma once
// Collects the results of a call's parts, which end in any order on any thread.

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "qkv/base/error.h"
#include "qkv/serve/error.h"

namespace qkv::serve {

// Result has a std::string `error`.
template <class Result>
class Gather {
 public:
  // Receives all results in order, or the error that concerns the call as a whole: an HttpError, or an
  // exception that is not the library's. Must not throw.
  using Done = std::function<void(std::vector<Result> results, const std::exception_ptr& error)>;

  // No parts: done() is called at once.
  Gather(size_t parts, Done done) : results_(parts), left_(parts), done_(std::move(done)) {
    if (parts == 0) done_({}, nullptr);
  }

  void put(size_t part, Result result) {
    results_[part] = std::move(result);  // each part has its own element
    finish_one(nullptr);
  }

  // An error of this part alone becomes its result's `error`.
  void fail(size_t part, const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (const HttpError&) {
      finish_one(error);
    } catch (const Error& reason) {
      try {
        results_[part].error = reason.what();
      } catch (...) {
        return finish_one(std::current_exception());
      }
      finish_one(nullptr);
    } catch (...) {
      finish_one(error);
    }
  }

 private:
  void finish_one(const std::exception_ptr& error) {
    {
      const std::lock_guard lock(mutex_);
      if (error && !error_) error_ = error;
      if (--left_ > 0) return;
    }
    done_(std::move(results_), error_);
  }

  std::vector<Result> results_;
  std::mutex mutex_;
  size_t left_;
  std::exception_ptr error_;
  Done done_;
};

}  // namespace qkv::serve
