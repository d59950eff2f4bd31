#include "qkv/models/option_words.h"

#include <array>

namespace qkv::kernels {

// A TransformerConfig has all but the first.
Words<Activation> words(Activation /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, Activation>, 8> kWords{
      {{"identity", Activation::identity},
       {"relu", Activation::relu},
       {"gelu", Activation::gelu_exact},
       {"gelu_tanh", Activation::gelu_tanh},
       {"silu", Activation::silu},
       {"tanh", Activation::tanh},
       {"relu_squared", Activation::relu_squared},
       {"quick_gelu", Activation::quick_gelu}}};
  return kWords;
}

Words<NormKind> words(NormKind /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, NormKind>, 2> kWords{
      {{"layer", NormKind::layer}, {"rms", NormKind::rms}}};
  return kWords;
}

}  // namespace qkv::kernels

namespace qkv::nn {

// A TransformerConfig has the first two.
Words<NormPlacement> words(NormPlacement /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, NormPlacement>, 4> kWords{
      {{"post", NormPlacement::post},
       {"pre", NormPlacement::pre},
       {"output", NormPlacement::output},
       {"both", NormPlacement::both}}};
  return kWords;
}

Words<PositionKind> words(PositionKind /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, PositionKind>, 9> kWords{
      {{"sinusoidal_interleaved", PositionKind::sinusoidal_interleaved},
       {"sinusoidal_halves", PositionKind::sinusoidal_halves},
       {"learned", PositionKind::learned},
       {"rotary", PositionKind::rotary},
       {"relative", PositionKind::relative},
       {"alibi", PositionKind::alibi},
       {"disentangled", PositionKind::disentangled},
       {"none", PositionKind::none},
       {"sinusoidal_inclusive", PositionKind::sinusoidal_inclusive}}};
  return kWords;
}

Words<RotaryScalingKind> words(RotaryScalingKind /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, RotaryScalingKind>, 5> kWords{
      {{"none", RotaryScalingKind::none},
       {"linear", RotaryScalingKind::linear},
       {"llama3", RotaryScalingKind::llama3},
       {"yarn", RotaryScalingKind::yarn},
       {"longrope", RotaryScalingKind::longrope}}};
  return kWords;
}

Words<QueryKeyNorm> words(QueryKeyNorm /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, QueryKeyNorm>, 6> kWords{
      {{"none", QueryKeyNorm::none},
       {"head", QueryKeyNorm::head},
       {"all_heads", QueryKeyNorm::all_heads},
       {"rotated_head", QueryKeyNorm::rotated_head},
       {"plain_head", QueryKeyNorm::plain_head},
       {"each_head", QueryKeyNorm::each_head}}};
  return kWords;
}

Words<SublayerOrder> words(SublayerOrder /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, SublayerOrder>, 3> kWords{
      {{"serial", SublayerOrder::serial},
       {"parallel", SublayerOrder::parallel},
       {"parallel_one_norm", SublayerOrder::parallel_one_norm}}};
  return kWords;
}

}  // namespace qkv::nn

namespace qkv::models {

Words<ClassificationTarget> words(ClassificationTarget /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, ClassificationTarget>, 4> kWords{
      {{"nothing", ClassificationTarget::nothing},
       {"texts", ClassificationTarget::texts},
       {"tokens", ClassificationTarget::tokens},
       {"spans", ClassificationTarget::spans}}};
  return kWords;
}

Words<PooledRow> words(PooledRow /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, PooledRow>, 3> kWords{
      {{"first", PooledRow::first}, {"mean", PooledRow::mean}, {"last", PooledRow::last}}};
  return kWords;
}

Words<ImagePooler> words(ImagePooler /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, ImagePooler>, 3> kWords{
      {{"dense", ImagePooler::dense}, {"norm", ImagePooler::norm}, {"attention", ImagePooler::attention}}};
  return kWords;
}

Words<ProblemType> words(ProblemType /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, ProblemType>, 3> kWords{
      {{"single_label", ProblemType::single_label},
       {"multi_label", ProblemType::multi_label},
       {"regression", ProblemType::regression}}};
  return kWords;
}

Words<Tying> words(Tying /*kind*/) {
  static constexpr std::array<std::pair<std::string_view, Tying>, 4> kWords{{{"none", Tying::none},
                                                                             {"two_way", Tying::two_way},
                                                                             {"three_way", Tying::three_way},
                                                                             {"inputs", Tying::inputs}}};
  return kWords;
}

}  // namespace qkv::models
