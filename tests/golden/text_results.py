"""Results of transformers' models on texts, with the keys of qkv's JSON."""

import torch


def run(model, tokenizer, *texts):
    encoded = tokenizer(*texts, return_tensors="pt")
    with torch.no_grad():
        return encoded, model(**encoded, output_hidden_states=True)


def masks(model, tokenizer, text, count=3):
    encoded, output = run(model, tokenizer, text)
    ids = encoded["input_ids"][0]
    result = []
    for place in (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist():
        best = output.logits[0, place].softmax(-1).topk(count)
        guesses = []
        for probability, token in zip(best.values.tolist(), best.indices.tolist()):
            filled = ids.clone()
            filled[place] = token
            guesses.append({"token": tokenizer.convert_ids_to_tokens(token), "id": token, "probability": probability,
                            "text": tokenizer.decode(filled[1:-1], clean_up_tokenization_spaces=False)})
        result.append(guesses)
    return result


def labels(model, logits):
    best = logits.softmax(-1).sort(descending=True, stable=True)
    return [{"label": model.config.id2label[i], "probability": p}
            for p, i in zip(best.values.tolist(), best.indices.tolist())]


def tags(model, tokenizer, text):
    _, output = run(model, tokenizer, text)
    offsets = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
    tokens = []
    for place in range(1, len(offsets) - 1):
        best = output.logits[0, place].softmax(-1).max(-1)
        begin, end = (len(text[:at].encode()) for at in offsets[place])
        tokens.append({"text": text.encode()[begin:end].decode(), "begin": begin, "end": end,
                       "label": model.config.id2label[int(best.indices)], "probability": float(best.values)})
    return tokens


def vectors(model, tokenizer, text):
    _, output = run(model, tokenizer, text)
    mean = output.last_hidden_state[0].mean(0)
    result = {"mean": mean, "cls": output.last_hidden_state[0, 0], "normalized": mean / mean.norm()}
    if getattr(output, "pooler_output", None) is not None:
        result["pooler"] = output.pooler_output[0]
    return {name: vector.tolist() for name, vector in result.items()}


def continuation(model, tokenizer, text, count=8):
    encoded = tokenizer(text, return_tensors="pt", return_token_type_ids=False)
    ids = encoded["input_ids"]
    with torch.no_grad():
        greedy = model.generate(**encoded, max_new_tokens=count, do_sample=False, pad_token_id=0)[0, ids.shape[1]:]
        logits = model(ids).logits[0, :-1].log_softmax(-1)
    scores = logits.gather(1, ids[0, 1:, None])[:, 0]
    return {"ids": greedy.tolist(), "token_log_probabilities": scores.tolist(),
            "log_probability": float(scores.sum()), "perplexity": float((-scores.mean()).exp())}


def answers(model, tokenizer, question, text, window, shared, count, most=15, none=False):
    """The answers of all windows, as transformers' pipeline (until version 4) finds them, but for its limit of candidates: the spans of
    at most `most` tokens, with the probabilities of their first and last token among those of the text and of [CLS]. Spans of the same
    words, which are whole in any window, are one answer, and so are equal texts; of several windows, the one where it is
    likelier."""
    encoded = tokenizer(question, text, truncation="only_second", max_length=window, stride=shared, return_overflowing_tokens=True)
    whole = tokenizer(question, text).encodings[0]  # with the words that windows cut
    found, nothing = {}, 1.0
    for part in encoded.encodings:
        kinds = {"token_type_ids": torch.tensor([part.type_ids])} if "token_type_ids" in tokenizer.model_input_names else {}
        with torch.no_grad():
            output = model(input_ids=torch.tensor([part.ids]), **kinds)
        candidates = [i for i, sequence in enumerate(part.sequence_ids) if sequence == 1]
        cls = part.ids.index(tokenizer.cls_token_id)
        first, last = (torch.softmax(logits[0, [cls, *candidates]].double(), -1).tolist()
                       for logits in (output.start_logits, output.end_logits))
        nothing = min(nothing, first[0] * last[0])
        places = {}
        for a in range(len(candidates)):
            for b in range(a, min(a + most, len(candidates))):
                begin = whole.word_to_chars(part.token_to_word(candidates[a]), 1)[0]
                end = whole.word_to_chars(part.token_to_word(candidates[b]), 1)[1]
                places[begin, end] = places.get((begin, end), 0) + first[1 + a] * last[1 + b]
        likeliest = {}
        for (begin, end), probability in sorted(places.items(), key=lambda one: -one[1]):
            answer = likeliest.setdefault(text[begin:end], {"text": text[begin:end], "begin": len(text[:begin].encode()),
                                                            "end": len(text[:end].encode()), "probability": 0})
            answer["probability"] += probability
        for answer in likeliest.values():
            if answer["probability"] > found.get(answer["text"], answer | {"probability": 0})["probability"]:
                found[answer["text"]] = answer
    if none:
        found[""] = {"text": "", "begin": 0, "end": 0, "probability": nothing}
    return sorted(found.values(), key=lambda answer: -answer["probability"])[:count]
