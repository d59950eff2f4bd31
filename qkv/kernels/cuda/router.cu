// Routing of tokens to experts: a block for each token.

#include "qkv/kernels/cuda/grid.h"
#include "qkv/kernels/cuda/kernels.h"
#include "qkv/kernels/cuda/softmax.h"

namespace qkv::kernels::cuda {
namespace {

// An expert, or a group, and its score; the order of choice.
struct Candidate {
  float score = -INFINITY;
  int32_t id = -1;  // none

  QKV_DEVICE bool before(const Candidate& other) const {
    return other.id < 0 || score > other.score || (score == other.score && id < other.id);
  }
};

QKV_DEVICE float sigmoid(float x) { return 1 / (1 + ::expf(-x)); }

// The sum of the largest of a group's scores.
QKV_DEVICE float group_score(const float* scores, int32_t width, int64_t count) {
  float sum = 0;
  Candidate last;
  for (int64_t i = 0; i < count; ++i) {
    Candidate best;
    for (int32_t e = 0; e < width; ++e) {
      const Candidate own{scores[e], e};
      if ((last.id < 0 || last.before(own)) && own.before(best)) best = own;
    }
    sum += best.score;
    last = best;
  }
  return sum;
}

// Of an expert of rank r: a token's weights before they are scaled, and what their gradients need.
struct Shares {
  const RouterRule& rule;
  const float* z;
  const int32_t* chosen;
  float log_sum = 0;             // of all experts' exponentials
  float largest = 0, total = 0;  // of the chosen ones' p

  QKV_DEVICE Shares(const Thread& thread, const RouterRule& router, const float* logits,
                    const int32_t* experts)
      : rule(router), z(logits), chosen(experts) {
    if (rule.sparse_mixer > 0) return;
    if (!rule.sigmoid && !rule.normalise) log_sum = log_sum_exp(thread, z, nullptr, rule.experts);
    if (!rule.normalise) return;
    constexpr float kNotZero = 1e-20f;  // of a sum of sigmoids
    largest = -INFINITY;
    for (int64_t r = 0; r < rule.per_token; ++r) largest = ::fmaxf(largest, z[chosen[r]]);
    total = rule.sigmoid ? kNotZero : 0;
    for (int64_t r = 0; r < rule.per_token; ++r) total += unnormalised(r);
  }

  QKV_DEVICE float unnormalised(int64_t r) const {
    const float logit = z[chosen[r]];
    return rule.sigmoid ? sigmoid(logit) : ::expf(logit - (rule.normalise ? largest : log_sum));
  }
  QKV_DEVICE float share(int64_t r) const {
    return rule.normalise ? unnormalised(r) / total : unnormalised(r);
  }
};

// SparseMixer: whether expert e competes with that of rank r, and the softmax over these.
struct Competition {
  const RouterRule& rule;
  const float* z;
  const int32_t* chosen;
  int64_t rank;
  float largest, sum = 0;

  QKV_DEVICE Competition(const Thread& thread, const RouterRule& router, const float* logits,
                         const int32_t* experts, int64_t r)
      : rule(router), z(logits), chosen(experts), rank(r), largest(logits[experts[r]]) {
    double own = 0;
    for (int64_t e = thread.index; e < rule.experts; e += thread.count) own += exponential(e);
    sum = static_cast<float>(thread.sum(own));
  }

  QKV_DEVICE float exponential(int64_t e) const {
    const float below = (largest - z[e]) / ::fmaxf(::fabsf(z[e]), largest);
    return below > 2 * rule.sparse_mixer || (rank > 0 && e == chosen[0]) ? 0 : ::expf(z[e] - largest);
  }
  QKV_DEVICE float share() const { return 1 / sum; }
};

}  // namespace

void choose_experts(const ExpertChoice& a) {
  const auto scores_and_groups = static_cast<size_t>(a.rule.experts + a.rule.groups) * sizeof(float);
  launch(
      a.tokens,
      [=] QKV_DEVICE(const Thread& thread) {
        const RouterRule& rule = a.rule;
        const int64_t width = rule.experts / rule.groups;
        float* const scores = reinterpret_cast<float*>(thread.shared);
        float* const of_groups = scores + rule.experts;
        const float* const z = a.logits + thread.block * rule.experts;
        const bool of_p = (a.correction != nullptr || rule.groups > 1) && !rule.corrects_logits;
        const float log_sum = of_p && !rule.sigmoid ? log_sum_exp(thread, z, nullptr, rule.experts) : 0;
        for (int64_t e = thread.index; e < rule.experts; e += thread.count) {
          float score = !of_p ? z[e] : rule.sigmoid ? sigmoid(z[e]) : ::expf(z[e] - log_sum);
          if (a.correction != nullptr) score += a.correction[e];
          scores[e] = score == score ? score : -INFINITY;
        }
        thread.synchronise();
        if (rule.groups > 1) {
          for (int64_t g = thread.index; g < rule.groups; g += thread.count)
            of_groups[g] = group_score(scores + g * width, static_cast<int32_t>(width), rule.group_scores);
          thread.synchronise();
          for (int64_t g = thread.index; g < rule.groups; g += thread.count) {
            const Candidate own{of_groups[g], static_cast<int32_t>(g)};
            int64_t better = 0;
            for (int32_t other = 0; other < rule.groups; ++other)
              better += other != g && Candidate{of_groups[other], other}.before(own) ? 1 : 0;
            for (int64_t i = 0; i < width && better >= rule.group_choices; ++i)
              scores[g * width + i] = -INFINITY;
          }
          thread.synchronise();
        }
        Candidate last;
        for (int64_t r = 0; r < rule.per_token; ++r) {
          Candidate best;
          for (int64_t e = thread.index; e < rule.experts; e += thread.count) {
            const Candidate own{scores[e], static_cast<int32_t>(e)};
            if ((last.id < 0 || last.before(own)) && own.before(best)) best = own;
          }
          const float score = thread.maximum(best.score);
          const bool ties = best.id >= 0 && best.score == score;
          const auto id = static_cast<int32_t>(
              -thread.maximum(-static_cast<float>(ties ? best.id : static_cast<int32_t>(rule.experts))));
          last = {score, id};
          if (thread.index == 0) a.chosen[thread.block * rule.per_token + r] = id;
        }
      },
      scores_and_groups);
}

void expert_weights(const ExpertWeights& a) {
  launch(a.tokens, [=] QKV_DEVICE(const Thread& thread) {
    const int64_t k = a.rule.per_token;
    const float* const z = a.logits + thread.block * a.rule.experts;
    const int32_t* const chosen = a.chosen + thread.block * k;
    float* const weights = a.weights + thread.block * k;
    if (a.rule.sparse_mixer > 0) {
      for (int64_t r = 0; r < k; ++r) {
        const Competition among(thread, a.rule, z, chosen, r);
        if (thread.index == 0) weights[r] = among.share();
      }
      return;
    }
    const Shares shares(thread, a.rule, z, chosen);
    for (int64_t r = thread.index; r < k; r += thread.count) weights[r] = a.rule.scale * shares.share(r);
  });
}

void expert_weights_backward(const ExpertWeightsBackward& a) {
  launch(a.tokens, [=] QKV_DEVICE(const Thread& thread) {
    const RouterRule& rule = a.rule;
    const int64_t k = rule.per_token;
    const float* const z = a.logits + thread.block * rule.experts;
    const int32_t* const chosen = a.chosen + thread.block * k;
    const float* const d_weights = a.d_weights + thread.block * k;
    float* const d_logits = a.d_logits + thread.block * rule.experts;
    if (rule.sparse_mixer > 0) {
      const Competition first(thread, rule, z, chosen, 0), second(thread, rule, z, chosen, 1);
      for (int64_t e = thread.index; e < rule.experts; e += thread.count) {
        float gradient = 0;
        for (int64_t r = 0; r < 2; ++r) {
          const Competition& among = r == 0 ? first : second;
          const float own = e == chosen[r] ? 1.0f : 0.0f;
          gradient += d_weights[r] * among.share() * (own - among.exponential(e) / among.sum);
        }
        put(d_logits[e], gradient, a.accumulate);
      }
      return;
    }
    const Shares shares(thread, rule, z, chosen);
    float mean = 0;
    for (int64_t r = 0; r < k; ++r) mean += d_weights[r] * shares.share(r);
    for (int64_t e = thread.index; e < rule.experts; e += thread.count) {
      // As RouterRow::gradient().
      float gradient = rule.normalise || rule.sigmoid ? 0 : -::expf(z[e] - shares.log_sum) * mean;
      for (int64_t r = 0; r < k; ++r) {
        if (chosen[r] != e) continue;
        gradient += shares.share(r) * (d_weights[r] - (rule.normalise ? mean : 0)) *
                    (rule.sigmoid ? 1 - sigmoid(z[e]) : 1);
      }
      put(d_logits[e], rule.scale * gradient, a.accumulate);
    }
  });
}

}  // namespace qkv::kernels::cuda
