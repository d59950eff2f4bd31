#pragma once
// Initial values of a BERT that is trained from random weights, where they differ from those of its layers.

#include "qkv/data/sentence_documents.h"
#include "qkv/models/text_encoder.h"

namespace qkv::train {

// Initialises a model with a masked-language head; `text` is the training text.
// - Matrices are normal with deviation 0.02 (Devlin et al. 2019, appendix A.2 of the code's configuration).
//   Glorot's and Bengio's distribution has three times that at d_model 256, and Adam, whose steps have one
//   size, takes as much longer to outgrow it.
// - The bias of the masked-language head is ln p of each token of the text (one that does not occur counts
//   once), so that the first predictions are the frequencies. Otherwise the embeddings, which are also the
//   head's weights, learn the frequencies first and all have one large common component.
// - Learned positions are sinusoids with the deviation of the other embeddings. Random ones know no
//   distances: attention to neighbours would be learned for each pair of positions separately.
// Throws UsageError for a model without that head, DataError for an id outside its vocabulary.
void initialise_bert(const models::TextEncoder& model, const data::SentenceDocuments& text, uint64_t seed);

}  // namespace qkv::train
