#include "python/bind/shared_engine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "python/bind/common.h"

namespace qkv::python {

std::vector<SharedEngine::Handle> SharedEngine::submit(std::vector<search::Request> requests) {
  std::vector<Handle> tickets;
  for (search::Request& request : requests)
    tickets.push_back(std::make_shared<Ticket>(Ticket{.request = std::move(request), .decoded = {}}));
  const std::lock_guard lock(mutex_);
  pending_.insert(pending_.end(), tickets.begin(), tickets.end());
  return tickets;
}

void SharedEngine::wait(const std::function<bool()>& ready) {
  Ticker tick;
  std::unique_lock lock(mutex_);
  while (!ready()) {
    if (!stepping_) {
      step(lock);
    } else if (stepping_process_ != getpid()) {
      throw UsageError(
          "fork: expected no other thread within a call of this model, found one that generates");
    } else {
      changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
    lock.unlock();
    tick();
    lock.lock();
  }
}

void SharedEngine::step(std::unique_lock<std::mutex>& lock) {
  stepping_ = true;
  stepping_process_ = getpid();
  std::erase_if(pending_, [](const Handle& ticket) { return ticket->cancelled; });
  const std::vector<Handle> pending = std::exchange(pending_, {}), cancelled = std::exchange(cancelled_, {});
  lock.unlock();
  std::vector<std::pair<Handle, search::Decoded>> ended;
  try {
    if (!engine_) engine_.reset(new search::Engine(make_()));
    for (const Handle& ticket : pending) {
      try {
        ticket->id = engine_->submit(std::move(ticket->request));
        running_.emplace(*ticket->id, ticket);
      } catch (const Error&) {
        ended.push_back({ticket, {.error = std::current_exception()}});
      }
    }
    for (const Handle& ticket : cancelled) {
      if (ticket->id) engine_->cancel(*ticket->id);
    }
    for (search::Decoded& decoded : engine_->step()) {
      const auto found = running_.find(decoded.request_id);
      if (found == running_.end()) continue;
      ended.emplace_back(std::move(found->second), std::move(decoded));
      running_.erase(found);
    }
  } catch (...) {  // concerns all requests
    for (const auto& [id, ticket] : std::exchange(running_, {}))
      ended.push_back({ticket, {.error = std::current_exception()}});
    for (const Handle& ticket : pending) {
      if (!ticket->id) ended.push_back({ticket, {.error = std::current_exception()}});
    }
    engine_.reset();
  }
  lock.lock();
  for (auto& [ticket, decoded] : ended) {
    ticket->decoded = std::move(decoded);
    ticket->done = true;
  }
  stepping_ = false;
  changed_.notify_all();
}

void SharedEngine::cancel(const std::vector<Handle>& tickets) {
  const std::lock_guard lock(mutex_);
  for (const Handle& ticket : tickets) {
    if (ticket->done || ticket->cancelled) continue;
    ticket->cancelled = true;
    if (!stepping_ && !ticket->id) ticket->request = {};
    if (stepping_) {
      cancelled_.push_back(ticket);
    } else if (ticket->id && engine_) {
      engine_->cancel(*ticket->id);  // frees its memory now
    }
  }
}

std::vector<search::Decoded> SharedEngine::decode(std::vector<search::Request> requests) {
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return requests[a].source.size() > requests[b].source.size(); });
  std::vector<search::Request> sorted;
  for (const size_t i : order) sorted.push_back(std::move(requests[i]));
  const std::vector<Handle> tickets = submit(std::move(sorted));
  try {
    wait([&] { return std::ranges::all_of(tickets, [](const Handle& one) { return one->done; }); });
  } catch (...) {
    cancel(tickets);
    throw;
  }
  std::vector<search::Decoded> decoded(requests.size());
  for (size_t k = 0; k < order.size(); ++k) decoded[order[k]] = std::move(tickets[k]->decoded);
  return decoded;
}

}  // namespace qkv::python
