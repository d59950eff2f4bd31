# A constraint on a language model's output: words that begin with a given letter.
import sys

import qkv


class Beginning(qkv.search.Constraint):
    def __init__(self, tokenizer, letter):
        self.ids = [i for i in range(tokenizer.size) if (tokenizer.token(i) or "").startswith(letter)]

    def apply(self, context, next):
        next.allow_only(self.ids)
        if context.output:
            next.forbid(context.output[-1])  # no word twice in a row


model = qkv.open(sys.argv[1])
print(model.generate("the man", max_new_tokens=4, constraints=[Beginning(model.tokenizer, "s")]).text())
