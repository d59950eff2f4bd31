"""Writes tests/jinja/golden: what PyPI's jinja2, in the settings of transformers, renders of tests/jinja/templates and of expressions.

    python tests/golden/chat_templates.py

templates.json: {"conversations": [context, ...], "texts": {template: [text, or null for an error, ...]}}
expressions.json: {"context": ..., "cases": [[template, text or null], ...]}
"""

import copy
import json
import warnings
from datetime import datetime
from pathlib import Path

import transformers.utils.chat_template_utils as chat_template_utils

TESTS = Path(__file__).parent.parent / "jinja"


class Clock:
    @staticmethod
    def now():
        return datetime(2024, 7, 26, 10, 5, 9)


WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a \"city\".\nNow.",
    "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Straße & co"}, "unit": {"type": "string", "enum": ["c", "f"]}, "days": {"type": ["integer", "null"]},
        "where": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number"}}}}}}}}
CALL = {"id": "abcdefghi", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Zürich", "deep": {"a": [1, 2.5, None, True]}}}}
CONVERSATIONS = [
    {"messages": [{"role": "system", "content": " Be brief. /think "}, {"role": "user", "content": "Hi  \n"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\n👋 {{ x }}"},
                  {"role": "user", "content": "What's \"new\"?"}], "tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"},
    {"messages": [{"role": "user", "content": "Weather?"}, {"role": "assistant", "content": "", "thinking": "call", "reasoning_content": "call", "tool_calls": [CALL]},
                  {"role": "tool", "content": "{\"t\": 21}", "tool_call_id": "abcdefghi", "name": "get_weather"}, {"role": "assistant", "content": "21 °C"}],
     "tools": [WEATHER], "documents": [{"title": "T", "text": "D"}], "add_generation_prompt": False, "bos_token": "<s>", "eos_token": "</s>",
     "enable_thinking": False, "reasoning_effort": "high", "model_identity": "M"},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": " See "}, {"type": "image"}, {"type": "text", "text": "?"}]}, {"role": "assistant", "content": "A cat."}],
     "add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>"}]

CONTEXT = {"s": "Hello, Wörld", "n": 5, "f": 2.75, "l": [3, "x", None, 1.5, True], "d": {"a": 1, "b": {"c": "d"}, "items": 3},
           "m": [{"role": "user", "content": "A"}, {"role": "bot", "content": "b", "x": 1}], "p": [{"n": "b", "v": 2}, {"n": "A", "v": 10}, {"n": "a", "v": 1}]}
EXPRESSIONS = r"""
-7 // 2|-7 % 3|7 % -3|-7.5 // 2|-7.5 % 2|7 / 2|4 / 2|2 ** 10|2 ** -1|2 ** 0.5|-2 ** 2|2 ** 3 ** 2|1 / 0|1 % 0|1.0 // 0|10 ** 25
1e16|1e15|123456789012345680.0|1e-5|0.0001|1.0|-0.0|1e300 * 1e10|0.1 + 0.2|100.0|1_000|0x1F|0b101|0o17|1_0.5_0|1e3|true + true|true == 1|1 == 1.0|none == false
'a' + 'b'|'a' ~ 1 ~ none ~ 1.0|'a' * 3|3 * 'ab'|-1 * 'a'|[1] + [2]|[0] * 2|(1,) + (2,)|'a' + 1|'%s and %r' % ('x', 'y')|'%5.2f|%-5d|%05d|%x' % (3.14159, 4, 42, 255)|'%(a)s' % {'a': 1}|'%d%%' % 3.9
'%s' % none|'%s %s' % 'a'|'%d' % 'a'|'%c' % 65|1 < 2 < 3|1 < 3 < 2|'a' < 'b'|'a' < 1|[1, 2] < [1, 3]|(1,) == [1]|'ß' > 'z'|1 in [1, 2]|'a' in 'abc'|'a' in d|1 not in l|none in 'a'|'x' in none
not 1 == 2|not not ''|1 and 2|0 or 'x'|none or []|1 if false|(1 if false) is defined|1 if true else 2|1 if 0 else 2 if 0 else 3
s[0]|s[-1]|s[100]|s[7:9]|s[::-1]|s[-3:]|s[::2]|s[5:2:-1]|l[1:3]|l[::-1]|l[10:]|l[-100:2]|l['a']|d['a']|d.a|d.b.c|d.items|d['items']|d.missing|d.missing.more|d.get('z', 4)|d.get('a')|n.x|none.x|none['x']|s.x
undefined_name|undefined_name.x|undefined_name + 1|undefined_name | length|undefined_name == none|undefined_name is none|undefined_name | default('d')|'' | default('d')|'' | default('d', true)|none | d('x')|none | d('x', boolean=true)|undefined_name in [1]|1 in undefined_name|undefined_name | list|undefined_name | tojson|undefined_name | int|undefined_name[0]
l|d|[none, true, 1.0, 'it\'s', "q\"", 'both\'"', '\n\t\\', 'é\u200b\x7f']|(1,)|()|{1: 'a', 'b': (2, 3), none: []}|range(3)|range(5, 0, -2)|range(0)|range(3)|list|range(10)[2:5]|range(10)[-1]|range(1, 10, 3) | list|d.items()|d.keys()|d.values()|d.items() | list|d | list|s | list
'x' | safe|('<' | safe) + '<'|'<&\'"' | e|('<' | e) ~ '<'|['<' | e]|'<b>' | forceescape
' a b ' | trim|'xxaxx' | trim('x')|'abc' | upper|'ÄÖß' | upper|'ÄÖẞΣ' | lower|'ΑΣ ΑΣΑ' | lower|'hello wORLD-foo (bar) [x {y <z a_b' | title|"they're BILL's" | title|"they're".title()|'hELLO' | capitalize|'ǆ' | capitalize|'ﬁx' | title
'abcabc' | replace('b', 'X')|'abcabc' | replace('b', 'X', 1)|'ab' | replace('', '-')|12321 | replace(2, 'x')|'abc' | reverse|[1, 2, 3] | reverse | list|'abc' | first|'abc' | last|[] | first|[] | last is defined|{} | first|d | first|d | last|'a b' | wordcount|'a-b_c 1 é' | wordcount
[1, 2] | join|[1, 2] | join(', ')|m | join(',', attribute='role')|['a', none, 1.5] | join('|')|'abc' | join('-')|[3, 1, 2] | sort|['b', 'A', 'a', 'B'] | sort|['b', 'A', 'a', 'B'] | sort(case_sensitive=true)|[3, 1, 2] | sort(reverse=true)|p | sort(attribute='v') | map(attribute='n') | list|p | sort(attribute='n,v') | map(attribute='v') | list|p | sort(true, attribute='n') | map(attribute='v') | list|[1, 'a'] | sort
p | map(attribute='n') | list|p | map(attribute='z', default=0) | list|p | map(attribute='z') | list|['a', 'b'] | map('upper') | join|['1', '2'] | map('int') | sum|p | map('nothing') | list|[1, 2, 3, 4] | select('odd') | list|[1, 2, 3, 4] | reject('divisibleby', 3) | list|[0, '', 1, 'a', none] | select | list|[0, '', 1] | reject | list|m | selectattr('x') | list|m | selectattr('x', 'defined') | list | length|m | selectattr('role', 'equalto', 'user') | map(attribute='content') | first|m | rejectattr('role', 'in', ['user']) | list | length|m | selectattr('role', 'nothing') | list
(m | selectattr('role', 'eq', 'nobody')) is sequence|'yes' if m | selectattr('role', 'eq', 'nobody') else 'no'|m | map(attribute='role') | length|[1, 2] | map('string') | list|['a', 'A', 'b'] | unique | list|['a', 'A', 'b'] | unique(case_sensitive=true) | list|[1, 1.0, true] | unique | list|[3, 1, 2] | min|['b', 'A'] | min|['b', 'A'] | min(case_sensitive=true)|p | max(attribute='v')|[] | max|[1, 2.5] | sum|p | sum(attribute='v')|[1] | sum(start=10)|['a'] | sum|[1, 2, 3, 4, 5] | batch(2) | list|[1, 2, 3] | batch(2, 'x') | list|[1, 2, 3, 4, 5] | slice(2) | list|[1, 2, 3] | slice(2, 'x') | list
d | items | list|d | dictsort|{'b': 1, 'A': 2} | dictsort|{'b': 1, 'A': 2} | dictsort(by='value')|{'b': 1, 'A': 2} | dictsort(true)|{'b': 1, 'A': 2} | dictsort(reverse=true)|none | items | list|5 | items | list
'42' | int|'4.9' | int|' 42 ' | int|'x' | int|'x' | int(7)|'0x1A' | int(base=16)|'ff' | int(0, 16)|none | int|4.9 | int|-4.9 | int|'1e3' | int|'1_000' | int|true | int|'3.5' | float|'x' | float|'x' | float(1.5)|none | float|'inf' | float|'1e400' | float
3.14159 | round|3.14159 | round(2)|2.5 | round|3.5 | round|-2.5 | round|2.675 | round(2)|7 | round|3.2 | round(method='ceil')|3.7 | round(0, 'floor')|3.14159 | round(3, 'floor')|-3 | abs|-3.5 | abs|'a' | abs|true | abs
'a\nb\n\nc' | indent|'a\nb\n\nc' | indent(2, true)|'a\nb\n\nc' | indent(2, blank=true)|'a\nb' | indent('>')|'a\n' | indent(1)|'hello big world' | truncate(9)|'hello big world' | truncate(9, true)|'hello big world' | truncate(9, true, '')|'hello' | truncate(3, leeway=0)|'ab' | center(7)|'abc' | center(8)|'%s-%s' | format(1, 'b')|'%(a)s' | format(a=2)
{'a': [1, 2.0, none, true], 'b': 'é"\n\\</'} | tojson|{'a': [1, {}], 'b': []} | tojson(indent=2)|{'b': 1, 'a': 2} | tojson(sort_keys=true)|'é\x7f👋' | tojson(ensure_ascii=true)|[1, 2] | tojson(separators=(',', ':'))|{'a': [1]} | tojson(indent=1, separators=(',', '='))|{1: 2, none: 3, true: 4, 1.5: 5} | tojson|(1, 2) | tojson|range(2) | tojson|{'a': undefined_name} | tojson|1e400 | tojson|'\x00\x1f\b\f' | tojson|[] | tojson(indent=2)|[[1]] | tojson(indent='\t')|{(1, 2): 3} | tojson
1 is odd|2 is even|-1 is odd|9 is divisibleby 3|9 is divisibleby(2)|none is none|0 is none|'' is string|1 is number|true is number|true is integer|1 is integer|1.0 is float|true is boolean|true is true|1 is true|d is mapping|l is mapping|s is sequence|l is sequence|d is sequence|5 is sequence|s is iterable|5 is iterable|range is callable|s is callable|s is defined|zz is undefined|1 is eq 1|1 is ne 2|2 is gt 1|2 is ge 2|1 is lt 1|1 is le 1|'a' is in 'abc'|1 is not in [2]|'ABC' is upper|'abc' is lower|1 is sameas true|none is sameas none|'x' is equalto 'x'|'upper' is filter|'odd' is test|'nothing' is filter|1 is nothing|s is not defined or 1
' a '.strip() ~ '|'|'xay'.strip('xy')|'aab'.lstrip('a')|'abb'.rstrip('b')|'a b  c'.split()|'a,b,,c'.split(',')|'a,b,c'.split(',', 1)|'a b c'.rsplit(' ', 1)|'a b c'.rsplit(none, 1)|' a  b '.split(none, 1)|'a\nb\r\nc'.splitlines()|'a\nb\n'.splitlines(true)|''.split()|''.split(',')|'a'.split('')|'abc'.startswith('ab')|'abc'.startswith(('x', 'a'))|'abc'.endswith('bc')|'abc'.find('c')|'éabc'.find('c')|'abc'.find('z')|'abc'.index('z')|'abcb'.rfind('b')|'abcb'.count('b')|'aXbX'.replace('X', '')|'-'.join(['a', 'b'])|'-'.join([1])|'abc'.title()|'a1'.isalnum()|'12'.isdigit()|'½'.isnumeric()|'ab'.isalpha()|' '.isspace()|'AB'.isupper()|'ab'.islower()|'7'.zfill(3)|'-7'.zfill(4)|'a'.ljust(3, '.') ~ '|'|'a'.rjust(3)|'a'.center(4, '*')|'ab'.center(5, '*')|'a=b=c'.partition('=')|'a=b=c'.rpartition('=')|'abc'.removeprefix('a')|'abc'.removesuffix('c')|'aB'.swapcase()|'abc'.nothing()|'{} {1}'.format(1, 2)|'{} {}'.format(1, 'b')|'{0}{a}{0!r}'.format('x', a=2)|'{:>5}|{:<5}|{:^5}|{:05d}|{:.2f}|{:,}'.format(1, 2, 3, 4, 5.678, 1234567)|'{a[k]}{b.x}'.format(a={'k': 1}, b={'x': 2})|'{'.format()|'{:x}{:#x}{:b}{:e}{:%}'.format(255, 255, 5, 12345.678, 0.25)|'{:*^10}'.format('mid')|'{:+d}{: d}'.format(5, 5)
[1, 2].append(3)|l.append is defined|{}.update({})|[1, 2, 1].count(1)|[1, 2].index(2)|[1].index(2)|d.copy()|d.pop('a')|s.__class__|s.__class__ is defined|d.__len__()|''.__class__.__mro__|range.__globals__|dict(a=1, b=2)|dict([('a', 1)])|dict({'a': 1}, b=2)|dict()|namespace(a=1)|namespace(a=1).a|namespace(a=1).b is defined|namespace({'a': 2})['a']|joiner()()|cycler('a', 'b').next()|range(100001) | length|range(0, 10, 0)|raise_exception('stop')|strftime_now('%Y-%m-%d %H:%M:%S %j %A %B %b %a %p %y %-d %e %I %U %w')|strftime_now('%%Y é %Z|')
'a' 'b'|"\x41\u00e9\U0001F44B\101\n"|'\q'|'\
x'|'é\é'|[1, 2,]|(1, 2,)|{'a': 1,}|[]|1,2|1, |l.0|l.1|d.b['c']|(d).a|'abc'[1]|[1,2][-1]|{'a': {'b': 1}}.a.b|f|n ~ f|-n|+n|- -n|-n ** 2|-n | abs|n is defined and f is defined|'%s' % l|[*l]|f(1)|n()|s()|1.5.real|l[1.0]|l[true]|d[[]]|{[]: 1}|lipsum(1)
""".strip("\n")
STATEMENTS = r"""
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ x }};{% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}
{% for a, b in [(1, 2), 'xy'] %}{{ a }}{{ b }}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }}{% endfor %}{% for c in 'é!' %}[{{ c }}]{% endfor %}
{% for x in [] %}a{% else %}b{% endfor %}{% for x in zz %}a{% else %}c{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in [1, 2, 3, 4] if x is even %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}
{% for x in [1, 2, 3] if x > 5 %}a{% else %}none{% endfor %}
{% for x in range(9) %}{% if x == 2 %}{% continue %}{% endif %}{% if x > 4 %}{% break %}{% endif %}{{ x }}{% endfor %}
{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }};{% endfor %}{{ x }}
{% set ns = namespace(x=1) %}{% for i in [1, 2] %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns }}
{% set q = 1 %}{% if true %}{% set q = 2 %}{% endif %}{{ q }}
{% if false %}{% set n = 2 %}{% endif %}{{ n }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set x %}a{{ n }}{% endset %}{{ x | upper }}{% set y | upper | replace('A', 'b') %}a{% endset %}{{ y }}
{% set n.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }}|{{ f(1, c=3) }}|{{ f() }}|{{ f(b=1, a=0) }}
{% macro f(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, 2, 3, k=4) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(z=2) }}
{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f }}
{% macro f(x) %}{% if x > 0 %}{{ x }}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro f() %}{{ y }}{% endmacro %}{% set y = 7 %}{{ f() }}
{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{{ n }}{% endcall %}
{% macro f(l) %}{% for i in l %}{{ caller(i) }}{% endfor %}{% endmacro %}{% call(i) f([1, 2]) %}<{{ i }}>{% endcall %}
{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}
{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}
{% filter upper %}a{{ s }}{% endfilter %}{% filter replace('a', 'b') | upper %}aa{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set a = 5 %}{% endwith %}{{ a is defined }}
{% for x in [[1, [2]], [3]] recursive %}{{ loop.depth }}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}
{% for x in [1] %}{{ loop(x) }}{% endfor %}
{% set j = joiner('-') %}{% for i in [1, 2, 3] %}{{ j() }}{{ i }}{% endfor %}{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{{ loop.cycle('a', 'b') }}{% endfor %}
{% set g = [1, 2, 3] | map('string') %}{{ g | list }}{{ g | list }}
{% set g = [1, 2, 3] | map('string') %}{{ g | first }}{% for x in g %}{{ x }}{{ loop.last }}{% endfor %}
{% raw %}{{ x }}{% endraw %}{% raw -%}  a  {%- endraw %}|
a  {#- c -#}  b{# {{ x }} #}c
  {% if true %}
  x
  {% endif %}
y  {%- if true %}  z  {%- endif +%}
w
  {%+ if true %}a{% endif %}
b {{- 1 -}} c {{+1}}
{{ 1 }}
{% if true -%}   
 x {% endif %} 
{% if 1 %}a{% elif 2 %}b{% else %}c{% endif %}{% if 0 %}a{% elif 2 %}b{% endif %}{% if 0 %}{% else %}c{% endif %}
{% print 1, 2 %}{% if true: %}x{% endif %}
{% generation %}g{{ n }}{% set n = 9 %}{% endgeneration %}{{ n }}
{% block x %}{% endblock %}
{% include 'x' %}
{% nothing %}
{% if %}{% endif %}
{% if true %}
{{ x
{{ 'abc }}
{% endif %}
{{ 1 | nothing }}
{{ a b }}
{{ (1 }}
{{ [1, 2 }}
{{ {1: } }}
{# open
{% raw %} open
{{ 1 if }}
{{ $ }}
{{ loop }}{% for loop in [1] %}{{ loop }}{% endfor %}
{{ n is defined is true }}
{{ '}}' }}{{ "{%" }}{{ {'a': {'b': 1}}['a'] }}
""".strip("\n")


def rendered(source, context):
    try:
        return chat_template_utils._compile_jinja_template(source).render(**copy.deepcopy(context))
    except Exception:
        return None


def expressions():
    """A '|' without spaces separates the expressions of a line, where brackets and quotes are closed."""
    for line in EXPRESSIONS.replace("\\\nx", "\\\x01x").split("\n"):
        begin = depth = 0
        quote = None
        for i, c in enumerate(line):
            if quote:
                if c == quote and (line[i - 1] != "\\" or line[i - 2] == "\\"):
                    quote = None
            elif c in "'\"":
                quote = c
            elif c in "([{":
                depth += 1
            elif c in ")]}":
                depth -= 1
            elif c == "|" and depth == 0 and line[i - 1] != " " and line[i + 1:i + 2] != " ":
                yield line[begin:i].replace("\x01", "\n")
                begin = i + 1
        yield line[begin:].replace("\x01", "\n")


def main():
    warnings.simplefilter("ignore", SyntaxWarning)
    chat_template_utils.datetime = Clock
    golden = TESTS / "golden"
    golden.mkdir(exist_ok=True)
    texts = {path.stem: [rendered(path.read_text(), context) for context in CONVERSATIONS] for path in sorted((TESTS / "templates").glob("*.jinja"))}
    cases = [[source, rendered(source, CONTEXT)] for source in ["{{ " + one + " }}" for one in expressions()] + STATEMENTS.split("\n")]
    # An address is of no use.
    cases = [case for case in cases if case[1] is None or " at 0x" not in case[1]]
    for name, value in (("templates", {"conversations": CONVERSATIONS, "texts": texts}), ("expressions", {"context": CONTEXT, "cases": cases})):
        lines = json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("],[", "],\n[").replace("],\"", "],\n\"")
        (golden / f"{name}.json").write_text(lines + "\n")
    print(f"{len(texts)} templates, {len(cases)} expressions, {sum(case[1] is None for case in cases)} of them errors; "
          f"of the texts {sum(one is None for both in texts.values() for one in both)} errors")


if __name__ == "__main__":
    main()
