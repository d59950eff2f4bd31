"""Compares qkv's chat templates with PyPI's jinja2 in the settings of transformers: rendered texts must be equal, or both sides
must refuse.

    python tests/interop/compare_templates.py --dump build/release/tests/dump_template --count 2000 --mutations 20000 --snippets 20000

Templates are those of tests/jinja/templates. Conversations are random, with nasty texts, missing and empty fields, tool calls with
nested arguments, parts of several types. --mutations changes templates token by token; --snippets renders random expressions.
Texts have only characters that Python's Unicode (14 or later) and utf8proc's (15) both know.
"""

import argparse
import copy
import json
import random
import re
import subprocess
import sys
import time
import warnings
from datetime import datetime
from pathlib import Path

import transformers.utils.chat_template_utils as chat_template_utils

TEMPLATES = Path(__file__).parent.parent / "jinja" / "templates"
NOW = datetime(2024, 7, 26, 10, 5, 9)


class Clock:
    @staticmethod
    def now():
        return NOW


WORDS = ["", " ", "Hello", "world", "héllo", "中文", "👍🏽", "don't", 'say "hi"', "{{ x }}", "{% if %}", "{# c #}", "</s>", "<|im_end|>",
         "<think>", "</think>", "[INST]", "\n", "\r\n", "\t", "  \n ", "\\n", "<b>&amp;", "ﬁß", "İΣ", "\u200b", "\u2028", "\x7f", "null",
         "1e5", "0", "-7", "3.14", "a.b", "x" * 50, "%s", "{}", "\u0301e", "\x00", "Å\u00a0b", "<tool_call>", "ASSISTANT", "`code`"]
NAMES = ["get_weather", "add", "naïve name", "x-1", "search.web", "", "T"]


def text(random):
    return "".join(random.choice(WORDS) + random.choice(["", " ", "\n", ""]) for _ in range(random.choice([0, 1, 1, 2, 3, 6])))


def value(random, depth=0):
    kind = random.randrange(9 if depth < 3 else 6)
    if kind == 0:
        return random.choice([0, 1, -1, 2, 7, 10**6, -12345678901234, 2**53 + 1])
    if kind == 1:
        return random.choice([0.0, 1.5, -2.25, 1e-7, 1e16, 123456.789, 0.1, 1e22, 3.0])
    if kind == 2:
        return random.choice([True, False, None])
    if kind <= 5:
        return text(random)
    if kind == 6:
        return [value(random, depth + 1) for _ in range(random.randrange(4))]
    return {random.choice(["a", "b", "type", "city", "näme", "items", "x y", "0"]): value(random, depth + 1) for _ in range(random.randrange(4))}


def arguments(random):
    made = value(random)
    made = made if isinstance(made, dict) else {"value": made}
    return json.dumps(made) if random.random() < 0.2 else made


def tool(random):
    parameters = {"type": "object", "properties": {}}
    for _ in range(random.randrange(4)):
        name = random.choice(["city", "unit", "days", "flag", "näme"])
        parameters["properties"][name] = random.choice([
            {"type": "string", "description": text(random)}, {"type": "integer", "minimum": 0}, {"type": ["string", "null"]},
            {"type": "array", "items": {"type": "number"}}, {"type": "string", "enum": ["a", "b c", '"']},
            {"type": "object", "properties": {"x": {"type": "boolean", "default": True}}, "required": ["x"]}])
    if parameters["properties"] and random.random() < 0.7:
        parameters["required"] = random.sample(sorted(parameters["properties"]), random.randint(1, len(parameters["properties"])))
    function = {"name": random.choice(NAMES), "description": text(random), "parameters": parameters}
    if random.random() < 0.1:
        del function[random.choice(sorted(function))]
    return {"type": "function", "function": function} if random.random() < 0.9 else function


def message(random, role):
    made = {"role": role, "content": text(random)}
    chance = random.random()
    if chance < 0.15:
        made["content"] = [random.choice([{"type": "text", "text": text(random)}, {"type": "image"}, {"type": "image_url", "image_url": {"url": "u"}},
                                          {"type": "audio"}, {"type": "other", "text": text(random)}]) for _ in range(random.randrange(4))]
    elif chance < 0.2:
        made["content"] = None
    elif chance < 0.25:
        del made["content"]
    elif chance < 0.27:
        made["content"] = value(random)
    if role == "assistant":
        if random.random() < 0.25:
            made["tool_calls"] = [{"id": random.choice(["c1", "call_0001", "abcdefghi"]), "type": "function",
                                   "function": {"name": random.choice(NAMES), "arguments": arguments(random)}}
                                  for _ in range(random.randrange(1, 3))]
        if random.random() < 0.2:
            made["reasoning_content"] = made["thinking"] = text(random)
        if random.random() < 0.2:
            made["content"] = "<think>" + text(random) + "</think>" + text(random)
    if role == "tool":
        made["tool_call_id"] = random.choice(["c1", "call_0001", "abcdefghi"])
        made["name"] = random.choice(NAMES)
    return made


def conversation(random):
    roles = []
    if random.random() < 0.5:
        roles.append(random.choice(["system", "system", "developer"]))
    for _ in range(random.choice([0, 1, 1, 2, 3])):
        roles += ["user", "assistant"]
        if random.random() < 0.3:
            roles += ["tool"] * random.randint(1, 2) + ["assistant"]
    if random.random() < 0.7:
        roles.append("user")
    if random.random() < 0.1:
        random.shuffle(roles)
    if random.random() < 0.05:
        roles.append(random.choice(["", "function", "ipython", "critic"]))
    context = {"messages": [message(random, role) for role in roles], "tools": None, "documents": None,
               "add_generation_prompt": random.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>"}
    if random.random() < 0.4:
        context["tools"] = [tool(random) for _ in range(random.randrange(4))]
    if random.random() < 0.15:
        context["documents"] = [{"title": text(random), "text": text(random)} for _ in range(random.randrange(3))]
    for name, values in (("enable_thinking", [True, False, None]), ("reasoning_effort", ["low", "high", 3]), ("date_string", ["26 Jul 2024"]),
                         ("custom_tools", [[tool(random)]]), ("xml_tools", [["t"]]), ("builtin_tools", [["browser", "python"]]), ("pad_token", ["<pad>"]),
                         ("tools_in_user_message", [True, False]), ("system_message", ["S", ""]), ("model_identity", [text(random)])):
        if random.random() < 0.2:
            context[name] = random.choice(values)
    if random.random() < 0.1:
        del context[random.choice(sorted(context))]
    return context


TOKEN = re.compile(r"\{%[-+]?|[-+]?%\}|\{\{-?|-?\}\}|\{#|#\}|'[^'\n]*'|\"[^\"\n]*\"|\w+|\s+|==|!=|<=|>=|.", re.S)
PARTS = ["{%", "%}", "{%-", "-%}", "{{", "}}", "{{-", "-}}", "{%+", "+%}", "if", "else", "elif", "endif", "for", "in", "endfor", "set", "endset", "not", "and", "or", "is",
         "defined", "none", "string", "mapping", "true", "false", "loop", ".", ".first", ".last", ".index0", ".length", ".previtem", "|", "|trim", "|tojson", "|length", "|upper",
         "|join", "|list", "|first", "|last", "|default('d')", "(", ")", "[", "]", "[0]", "[-1]", "[1:]", "[::-1]", "~", "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", ">=",
         ",", ":", "0", "1", "-2", "2.5", "''", "'x'", "'a b'", "messages", "message", "tools", "ns", "namespace()", ".role", ".content", "['role']", "bos_token", "undefined_name",
         "loop.index", "macro", "range(3)", ".items()", ".get('role')", ".split(' ')", ".strip()", "not in", "is not", "iterable", "{}", "[]", "break", "continue", " ", "\n"]


def mutated(random, source):
    tokens = TOKEN.findall(source)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        at = random.randrange(len(tokens))
        kind = random.randrange(5)
        if kind == 0:
            del tokens[at]
            tokens = tokens or [" "]
        elif kind == 1:
            tokens.insert(at, random.choice(PARTS))
        elif kind == 2:
            tokens[at] = random.choice(PARTS)
        elif kind == 3:
            tokens[at] = random.choice(tokens)
        else:
            other = random.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens)


ATOMS = ["0", "1", "2", "-3", "7", "10", "2.5", "-0.5", "1e20", "0.1", "true", "false", "none", "''", "'abc'", "'A b c'", "'ünï ß'", "' x '", "'1,2,3'", "'42'", "'3.7'", "'%s-%d'", "'{}'",
         "[]", "[1,2,3]", "[3,1,2]", "['b','A','c']", "[[1,2],[3]]", "()", "(1,)", "(1,'x')", "{}", "{'a':1,'b':2}", "{'b':[1],'a':none}", "range(4)", "range(5,0,-2)", "u", "s", "n", "f", "l",
         "d", "m", "m[0]", "m[1].role", "d.items()", "d.keys()", "d.values()", "l|map('string')", "m|map(attribute='role')", "dict(a=1)", "'a\\nb\\tc'", "'\\u00e9\\x41'", "nested", "big"]
FILTERS = ["abs", "capitalize", "center(9)", "count", "d('z')", "default('z',true)", "dictsort", "dictsort(by='value')", "dictsort(reverse=true)", "e", "first", "float", "float(1)", "int", "int(7)",
           "int(base=16)", "indent", "indent(2,true)", "indent('>>',blank=true)", "items", "join", "join(',')", "join('-',attribute='role')", "last", "length", "list", "lower", "map('upper')",
           "map('int')", "map(attribute='a')", "map(attribute='x',default=0)", "max", "min", "reject", "reject('none')", "rejectattr('role','eq','user')", "replace('a','b')", "replace('','-')",
           "replace('b','',1)", "reverse", "round", "round(1)", "round(0,'floor')", "round(method='ceil')", "select", "select('odd')", "select('string')", "selectattr('role')",
           "selectattr('role','equalto','user')", "slice(2)", "sort", "sort(true)", "sort(attribute='role')", "sort(case_sensitive=true)", "string", "sum", "sum(start=5)", "title", "tojson",
           "tojson(indent=2)", "tojson(sort_keys=true)", "tojson(separators=(',',':'))", "tojson(ensure_ascii=true)", "trim", "trim('a')", "truncate(5)", "truncate(4,true,'.')", "unique", "upper",
           "wordcount", "batch(2)", "batch(2,0)", "format(1,2)", "format(a=1)", "safe", "attr('role')", "list|reverse|list", "forceescape"]
TESTS = ["boolean", "callable", "defined", "divisibleby 2", "divisibleby(3)", "eq 1", "==1", "equalto('abc')", "even", "false", "float", "ge 2", "gt 1", "in [1,2,'abc']", "in 'abcdef'", "integer",
         "iterable", "le 2", "lower", "lt 3", "mapping", "ne 1", "none", "number", "odd", "sameas none", "sequence", "string", "true", "undefined", "upper", "not none", "not defined", "escaped"]
METHODS = ["upper()", "lower()", "strip()", "strip('ab')", "lstrip()", "rstrip('c ')", "split()", "split(',')", "split(' ',1)", "rsplit(' ',1)", "rsplit(maxsplit=1)", "splitlines()",
           "startswith('a')", "endswith(('c','x'))", "title()", "capitalize()", "replace('a','bb')", "find('b')", "rfind('c')", "index('b')", "count('a')", "join(['x','y'])", "join(l)", "isdigit()",
           "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "isnumeric()", "zfill(6)", "ljust(5,'.')", "rjust(6)", "center(7,'*')", "partition('b')", "rpartition(' ')", "items()",
           "keys()", "values()", "get('a')", "get('zz',3)", "append(1)", "update({})", "pop()", "index(2)", "count(1)", "copy()", "removeprefix('a')", "removesuffix('c')", "swapcase()",
           "format(1,2)", "format(a=1)", "isascii()", "isprintable()", "isdecimal()", "find('c',1)", "count('',1)", "startswith('b',1)"]
BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
SUBSCRIPTS = ["[0]", "[-1]", "[5]", "['a']", "['role']", ".a", ".role", ".items", ".nope", "[1:]", "[:2]", "[::-1]", "[::2]", "[-2:]", "[3:0:-1]", "[:none]", "[none]", "[1.0]", ".0", "['upper']", ".real"]
SPECS = ["", ":>8", ":<6", ":^7", ":05", ":.2f", ":,", ":x", ":+d", ":e", ":*^9", ":s", ":10.3", ":%", ":#x", ":_", "!r", "!s:>9", ":g", ":.3s"]
PERCENTS = ["%s", "%r", "%d", "%5d", "%-5d|", "%05d", "%+d", "%x", "%#x", "%f", "%.2f", "%8.3f", "%e", "%g", "%s %s", "%%", "%(a)s", "%.2s", "%5s", "%i", "%c", "%o", "%X", "%G"]


def expression(random, depth=0):
    kind = random.randrange(12 if depth < 3 else 3)
    if kind < 3:
        return random.choice(ATOMS)
    inner = expression(random, depth + 1)
    if kind < 6:
        return f"({inner})|{random.choice(FILTERS)}"
    if kind == 6:
        return f"({inner}) is {random.choice(TESTS)}"
    if kind == 7:
        return f"({inner}).{random.choice(METHODS)}"
    if kind == 8:
        return f"({inner}){random.choice(SUBSCRIPTS)}"
    if kind == 9:
        if random.random() < 0.2:
            return f"'{{{random.choice(SPECS)}}}'.format({inner})"
        if random.random() < 0.2:
            return f"'{random.choice(PERCENTS)}' % ({inner})"
        return random.choice([f"-({inner})", f"not ({inner})", f"[{inner}, {expression(random, depth + 1)}]", f"+({inner})", f"{{'k': {inner}}}", f"({inner},)"])
    if kind == 10 and random.random() < 0.3:
        return f"({inner}) if ({expression(random, depth + 1)}) else ({expression(random, depth + 1)})"
    return f"({inner}) {random.choice(BINARY)} ({expression(random, depth + 1)})"


SNIPPET_CONTEXT = {"s": "Hello, Wörld", "n": 5, "f": 2.75, "l": [3, "x", None, 1.5, True], "d": {"a": 1, "b": {"c": "d"}, "items": 3},
                   "m": [{"role": "user", "content": "A"}, {"role": "bot", "content": "b", "x": 1}], "nested": [[1, [2, [3]]], {"k": {"k": []}}], "big": 2**53 + 1}


def snippet(random):
    made = expression(random)
    form = random.randrange(6)
    if form == 0:
        return f"{{% for x in {made} %}}{{{{ loop.index }}}}:{{{{ x }}}}{{{{ ',' if not loop.last }}}}{{% else %}}none{{% endfor %}}"
    if form == 1:
        return f"{{% if {made} %}}yes{{% else %}}no{{% endif %}}"
    if form == 2:
        return f"{{% set v = {made} %}}{{{{ v }}}}{{{{ v is defined }}}}"
    return f"{{{{ {made} }}}}"


# What qkv refuses by design (docs/chat-templates.md): among it the slices of what has none, which jinja2 accepts for constants only. What Python
# prints with an address.
LIMITS = re.compile("is not supported|64 bits|at most|to slice, found|not UTF-8|complex")
ADDRESS = re.compile(r" object at 0x|<(built-in |bound )?method|<function|<generator|<class|_iterator|<jinja2")


def rendered(source, context):
    """The text, or None and the error. Of a copy, which the filter `indent` may change."""
    try:
        return chat_template_utils._compile_jinja_template(source).render(**copy.deepcopy(context)), None
    except Exception as error:
        return None, f"{type(error).__name__}: {error}"


def compare(jobs, dump, label):
    """jobs: (name, template, context)."""
    lines = "".join(json.dumps({"template": source, "context": context}, ensure_ascii=False) + "\n" for _, source, context in jobs)
    started = time.time()
    done = subprocess.run([dump], input=lines.encode(), stdout=subprocess.PIPE, check=True)
    seconds = time.time() - started
    results = [json.loads(line) for line in done.stdout.decode().split("\n") if line]
    assert len(results) == len(jobs), f"{label}: {len(results)} results of {len(jobs)}"
    texts = errors = refused = 0
    differing = []
    started = time.time()
    for (name, source, context), ours in zip(jobs, results):
        expected, error = rendered(source, context)
        if "text" in ours and expected == ours["text"]:
            texts += 1
        elif "error" in ours and error is not None:
            errors += 1
        elif "error" in ours and expected is not None and (LIMITS.search(ours["error"]) or ADDRESS.search(expected)):
            refused += 1
        else:
            differing.append((name, source, context, expected, error, ours))
    print(f"{label}: {texts} equal texts, {errors} errors on both sides, {refused} refused by qkv only, {len(differing)} differences "
          f"(qkv {seconds:.1f} s, jinja2 {time.time() - started:.1f} s)")
    return differing


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dump", default="build/release/tests/dump_template")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--mutations", type=int, default=0)
    parser.add_argument("--snippets", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    options = parser.parse_args()
    chat_template_utils.datetime = Clock
    warnings.simplefilter("ignore", SyntaxWarning)
    generator = random.Random(options.seed)
    templates = [(path.name, path.read_text()) for path in sorted(TEMPLATES.glob("*.jinja"))]
    differing = []
    if options.count and templates:
        conversations = [conversation(generator) for _ in range(options.count)]
        jobs = [(name, source, context) for name, source in templates for context in conversations]
        differing += compare(jobs, options.dump, f"{len(templates)} templates, {options.count} conversations")
    if options.mutations and templates:
        jobs = []
        for _ in range(options.mutations):
            name, source = generator.choice(templates)
            jobs.append((name, mutated(generator, source), conversation(generator)))
        differing += compare(jobs, options.dump, "mutated templates")
    if options.snippets:
        differing += compare([("snippet", snippet(generator), SNIPPET_CONTEXT) for _ in range(options.snippets)], options.dump, "snippets")
    for name, source, context, expected, error, ours in differing[:options.show]:
        print(f"--- {name}\n{source if name == 'snippet' else ''}\n  jinja2: {repr(expected)[:700]} {error}\n  qkv:    {str(ours)[:700]}")
        if name != "snippet":
            print(f"  context: {json.dumps(context, ensure_ascii=False)}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
