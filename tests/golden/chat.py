"""Expected prompts of tests/pipelines/test_chat.cc: what transformers' apply_chat_template returns for a folder with the
tokenizer of tests/apps/golden/hub/SmolLM2-135M and the files below.

    python tests/golden/chat.py          # writes tests/pipelines/golden/chat.json
"""

import json
import pathlib
import shutil
import tempfile

import transformers

TESTS = pathlib.Path(__file__).resolve().parent.parent
TOKENIZER = TESTS / "apps/golden/hub/SmolLM2-135M"

CHATML = ("{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}"
          "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %}")
# Special tokens, a variable, reasoning under each name, trimmed messages, a further field, roles that must be known.
THOUGHTFUL = ("{{ bos_token }}{% for message in messages %}{% if message.role not in ['user', 'assistant', 'tool'] %}"
              "{{ raise_exception('unknown role ' + message.role) }}{% endif %}[{{ message.role }}{% if message.name is defined %}"
              " {{ message.name }}{% endif %}]{% if message.reasoning_content and enable_thinking %}<think>"
              "{{ message.reasoning_content }}|{{ message.thinking }}</think>{% endif %}{{ message.content | trim }}"
              "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}{{ pad_token }}")
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "The captain said that?"}]
ANSWERED = CHAT + [{"role": "assistant", "content": " Yes, <|im_end|> he did. "}, {"role": "user", "content": "Straße\n"}]
THOUGHT = [{"role": "user", "content": " a "}] + [
    {"role": "assistant", key: "hm", "content": "b", "name": None, "extra": 1} for key in ("reasoning_content", "thinking", "reasoning")
] + [{"role": "tool", "name": "clock", "content": "noon"}]
FINAL = CHAT + [{"role": "assistant", "content": "He said \n"}]


def folder_of(files):
    folder = pathlib.Path(tempfile.mkdtemp())
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(TOKENIZER / name, folder)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if name == "tokenizer_config.json":
            path.write_text(json.dumps({**json.loads(path.read_text()), **content}))
        else:
            path.write_text(content)
    return folder


FOLDERS = {
    "file": {"chat_template.jinja": CHATML, "tokenizer_config.json": {"chat_template": "{{ 'not this' }}"}},
    "config": {"tokenizer_config.json": {"chat_template": THOUGHTFUL, "pad_token": "<|im_end|>"}},
    "names": {"tokenizer_config.json": {"chat_template": [{"name": "tool_use", "template": "{{ 'tools' }}"},
                                                          {"name": "default", "template": CHATML}]}},
    "folder": {"chat_template.jinja": CHATML, "additional_chat_templates/short.jinja": "{{ messages[-1].content }}"},
}
CASES = [
    ("file", CHAT, {"add_generation_prompt": True}), ("file", ANSWERED, {"add_generation_prompt": True}), ("file", ANSWERED, {}),
    ("file", FINAL, {"continue_final_message": True}), ("names", CHAT, {"add_generation_prompt": True}),
    ("config", THOUGHT, {"enable_thinking": True}), ("config", THOUGHT, {"enable_thinking": False, "add_generation_prompt": True}),
    ("config", THOUGHT, {"enable_thinking": True, "eos_token": "<|im_start|>"}),
    ("config", [{"role": "user", "content": "x"}, {"role": "assistant", "content": " said  "}], {"continue_final_message": True}),
    ("folder", CHAT, {"chat_template": "short"}), ("folder", CHAT, {"add_generation_prompt": True}),
]

cases = []
for name, messages, options in CASES:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder_of(FOLDERS[name]))
    text = tokenizer.apply_chat_template(messages, tokenize=False, **options)
    ids = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False, **options)
    cases.append({"folder": name, "messages": messages, "options": options, "text": text, "ids": ids})
(TESTS / "pipelines/golden/chat.json").write_text(
    json.dumps({"transformers": transformers.__version__, "folders": FOLDERS, "cases": cases}, ensure_ascii=False, indent=1) + "\n")
