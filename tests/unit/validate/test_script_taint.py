"""Where a script takes the submission from, and by which name it calls what it calls: neither hides that it runs it."""

from __future__ import annotations

import pytest

from karotte_gym.validate.script_flaw import RUNS
from karotte_gym.validate.script_rules import read

MODULES = "import argparse, asyncio, builtins, functools, importlib, os, pickle, subprocess, sys, threading\n"
MODULES += "from collections import namedtuple\nfrom dataclasses import dataclass\nfrom pathlib import Path\n"
USE = '\neval(open(f"{sub}/workdir/x").read(9))'
METHOD = '        eval(open(self.sub + "/x").read(9))\n'
FUNCTION = 'def g(root, sub):\n    return eval(open(sub + "/x").read(9))\n'
PARSER = "p = argparse.ArgumentParser()\n"


def runs(code: str) -> bool:
    return RUNS in {flaw.kind for flaw in read(MODULES + code).flaws}


@pytest.mark.parametrize(
    "code",
    [
        "sub, root, out = map(Path, sys.argv[1:4])" + USE,
        "sub, root, out = [Path(a) for a in sys.argv[1:]]" + USE,
        "sub, root, out = (Path(a) for a in sys.argv[1:])" + USE,
        "sub = sys.argv[-3]" + USE,
        "args = sys.argv[1:]\nsub = args[0]" + USE,
        "args = sys.argv\nscript, sub, root, out = args" + USE,
        "_, *rest = sys.argv\nsub = rest[0]" + USE,
        "argv = list(sys.argv)\nargv.pop(0)\nsub = argv.pop(0)" + USE,
        "sub = next(iter(sys.argv[1:]))" + USE,
        "match sys.argv:\n    case [_, sub, root, out]:\n        eval(open(sub).read(9))",
        "from sys import argv\nsub = argv[1]" + USE,
        "import sys as system\nsub = system.argv[1]" + USE,
        'sub = "/submission"' + USE,
        PARSER + "p.add_argument('sub')\np.add_argument('root')\np.add_argument('out')\nsub = p.parse_args().sub" + USE,
        PARSER + "for n in ('a', 'b', 'c'):\n    p.add_argument(n)\nns = vars(p.parse_args())\nsub = ns['a']" + USE,
        PARSER + "p.add_argument('paths', nargs=3)\nsub, root, out = p.parse_args().paths" + USE,
        PARSER + "ns, rest = p.parse_known_args()\nsub = ns.a" + USE,
        "config = {'sub': sys.argv[1]}\nsub = config['sub']" + USE,
        "config = {}\nconfig['sub'] = sys.argv[1]\nsub = config['sub']" + USE,
        "def main():\n    global sub\n    sub = sys.argv[1]\nmain()" + USE,
        "def main(argv):\n    sub, root, out = argv\n    eval(open(sub).read(9))\nmain(sys.argv[1:])",
        "def main(argv=sys.argv):\n    eval(open(argv[1]).read(9))\nmain()",
        FUNCTION + "g(*reversed(sys.argv[1:3]))",
        FUNCTION + "g(sub=sys.argv[1], root=sys.argv[2])",
        FUNCTION + 'g(**{"sub": sys.argv[1], "root": sys.argv[2]})',
        FUNCTION + "functools.partial(g, sys.argv[2])(sys.argv[1])",
        FUNCTION + "threading.Thread(target=g, args=(sys.argv[2], sys.argv[1])).start()",
        "def g(*args):\n    eval(open(args[0]).read(9))\ng(*sys.argv[1:])",
        "def g(**given):\n    eval(open(given['sub']).read(9))\ng(sub=sys.argv[1])",
        "async def g(sub):\n    eval(open(sub).read(9))\nasyncio.run(g(sys.argv[1]))",
        "g = lambda sub: eval(open(sub).read(9))\ng(sys.argv[1])",
        "def outer(sub):\n    def inner():\n        eval(open(sub).read(9))\n    return inner\nouter(sys.argv[1])()",
        "def lines(sub):\n    for line in open(sub):\n        yield line\nfor line in lines(sys.argv[1]):\n    eval(line)",
        f"class G:\n    def __init__(self, sub):\n        self.sub = sub\n    def go(self):\n{METHOD}G(sys.argv[1]).go()",
        f"class G:\n    sub = sys.argv[1]\n    def go(self):\n{METHOD}G().go()",
        f"@dataclass\nclass G:\n    root: str\n    sub: str\n    def go(self):\n{METHOD}G(sys.argv[2], sub=sys.argv[1]).go()",
        "class B:\n    def __init__(self, sub):\n        self.sub = sub\n"
        f"class G(B):\n    def go(self):\n{METHOD}G(sys.argv[1]).go()",
        "class G:\n    def go(self, sub):\n        eval(open(sub).read(9))\nG().go(sys.argv[1])",
        "class G:\n    def __call__(self, sub):\n        eval(open(sub).read(9))\nG()(sys.argv[1])",
        "G = namedtuple('G', 'sub root out')\nsub = G(*sys.argv[1:]).sub" + USE,
        "for path in Path(sys.argv[1]).rglob('*.py'):\n    exec(path.open().read(9))",
        "if text := open(sys.argv[1]).read(9):\n    eval(text)",
        "values = [eval(line) for line in open(sys.argv[1])]",
    ],
)
def test_the_submission_is_known_wherever_a_script_takes_it_from(code: str) -> None:
    assert runs(code)


@pytest.mark.parametrize(
    "code",
    [
        "from pickle import loads\nloads(TEXT)",
        "import pickle as p\np.loads(TEXT)",
        "from pickle import loads as json_loads\njson_loads(TEXT)",
        "from pickle import *\nloads(TEXT)",
        "try:\n    import cPickle as pickle\nexcept ImportError:\n    import pickle\npickle.loads(TEXT)",
        '__import__("pickle").loads(TEXT)',
        'importlib.import_module("pickle").loads(TEXT)',
        "from subprocess import run\nrun(['sh', '-c', TEXT])",
        "import subprocess as sp\nsp.run(['sh', '-c', TEXT])",
        "from os import system\nsystem(TEXT)",
        "from joblib import load\nload(sys.argv[1])",
        "e = eval\ne(TEXT)",
        "builtins.eval(TEXT)",
        'getattr(builtins, "eval")(TEXT)',
        '{"e": eval, "i": int}["e"](TEXT)',
        "list(map(eval, TEXT.split()))",
        "with ThreadPoolExecutor() as pool:\n    pool.submit(eval, TEXT)",
        "command = [sys.executable]\ncommand.append(sys.argv[1])\nsubprocess.run(command)",
    ],
)
def test_what_is_called_is_known_by_whatever_name(code: str) -> None:
    assert runs(code.replace("TEXT", "open(sys.argv[1]).read(9)"))


@pytest.mark.parametrize(
    "code",
    [
        "print('nothing')",
        "from elsewhere import grade\ngrade(sys.argv)",
        "import click\n@click.command()\n@click.argument('sub')\ndef main(sub):\n    eval(open(sub).read(9))\nmain()",
        "setattr(threading, 'sub', sys.argv[1])\neval(open(threading.sub).read(9))",
    ],
)
def test_a_script_that_hides_where_the_submission_comes_from_is_not_taken_for_sound(code: str) -> None:
    reading = read(MODULES + code)
    assert (reading.flaws, reading.sees_submission) == ((), False)


def test_what_a_name_was_before_it_was_bound_anew_it_is_no_more() -> None:
    head = "sub, root, out = sys.argv[1:]\n"
    anew = "path = sub + '/x'\nopen(path).read(9)\npath = root + '/y'\nopen(path).read()"
    assert read(MODULES + head + anew).flaws == ()
    branch = "path = root\nif out:\n    path = sub\nopen(path).read()"
    loop = "path = root\nfor _ in out:\n    open(path).read()\n    path = sub"
    handler = "path = sub\ntry:\n    path = root\nexcept OSError:\n    pass\nopen(path).read()"
    for code in (branch, loop, handler):
        assert [flaw.kind for flaw in read(MODULES + head + code).flaws] == ["unbounded read"]


@pytest.mark.parametrize(
    "code",
    [
        "str()\nPath()\nos.path.join()",
        "x = 10 ** 10 ** 10 ** 10\ny = 1 << 10 ** 9\nz = x % 0",
        "x = []\nfor _ in x:\n    x = [x, x, x]",
        "def f(x):\n    return f(f(x)) if x else f\nf(f)(f)",
        "f = lambda x: f(x)\nf(f)",
        "x = x\nx.y = x\nx[x] = x.y(x)[x](*x, **x)",
        "a, *b, c = 1, 2\n(a, b), c = 1\n[a, b] = sys.argv",
        "sys.argv[::0]\nsys.argv[99]\nsys.argv['x']",
        "f''\n{}\n{**{}}\nlambda: (yield)\nclass C(C): pass\nC(C())()",
        "match sys.argv:\n    case {'a': [x, *_], **rest} | C(x, y=x) | None as x:\n        pass",
    ],
)
def test_what_makes_no_sense_or_has_no_end_is_read_to_its_end(code: str) -> None:
    assert read(MODULES + code).flaws == ()
