"""A scoring script is read for what it opens, how much it reads and what it runs; what a sound one does is no flaw."""

from __future__ import annotations

import pytest

from karotte_gym.validate.script_flaw import NAMED_PATH, ORIGINAL_PATH, PATTERN, RUNS, UNBOUNDED, UNBOUNDED_LINE
from karotte_gym.validate.script_rules import flaws_of

HEAD = "import json, os, pickle, subprocess, sys, yaml\nfrom pathlib import Path\nsub, root, result = sys.argv[1:]\n"
TEXT = 'text = open(f"{sub}/workdir/x").read(64)\n'


def kinds(code: str) -> list[str]:
    return [flaw.kind for flaw in flaws_of(HEAD + code)]


@pytest.mark.parametrize(
    "code",
    [
        'open("/workdir/answer.txt").read(9)',
        'open(b"/workdir/answer.txt").read(9)',
        'os.path.exists("/workdir/answer.txt")',
        'open(os.path.join(sub, "/workdir/answer.txt")).read(9)',  # join forgets what stands before an absolute path
        '(Path(sub) / "/workdir/answer.txt").open()',  # and so does a division
        'PLACE = "/workdir"\nopen(f"{PLACE}/answer.txt").read(9)',
        'def f(path):\n    return open(path).read(9)\nf("/workdir/answer.txt")',
        'for path in ("/workdir/a", "/workdir/b"):\n    open(path).read(9)',
        'subprocess.run(["cat", "/workdir/answer.txt"])',
        'from karotte_grading import read_submitted\nread_submitted("/workdir/answer.txt", 64)',
        'open(os.path.join("/", "workdir", "answer.txt")).read(9)',
        '(Path("/") / "workdir" / "answer.txt").open().read(9)',
        'open("/workdir/%s" % "answer.txt").read(9)',
        'open("/workdir/{}".format("answer.txt")).read(9)',
        'for path in {"/workdir/a": 1}:\n    open(path).read(9)',
        'os.chdir("/workdir")\nopen("answer.txt").read(9)',
        'for base in (sub, ""):\n    path = base + "/workdir/x"\n    if os.path.exists(path):\n        open(path)',
    ],
)
def test_the_path_at_which_the_student_wrote_is_found(code: str) -> None:
    assert ORIGINAL_PATH in kinds(code)


@pytest.mark.parametrize(
    "code",
    [
        'open(f"{sub}/workdir/answer.txt").read(9)',
        'open(sub + "/workdir/answer.txt").read(9)',
        'open(os.path.join(sub, "workdir/answer.txt")).read(9)',
        'ANSWER = "/workdir/answer.txt"\nopen(sub + ANSWER).read(9)',
        'ANSWER = "/workdir/answer.txt"\nopen(os.path.join(sub, ANSWER.lstrip("/"))).read(9)',
        '(Path(sub) / Path("/workdir/answer.txt").relative_to("/")).open().read(9)',
        'print("hand in /workdir/answer.txt")',
        'json.dump({"score": 0.0, "metadata": {"reason": "/workdir/answer.txt is missing"}}, open(result, "w"))',
        'with open(f"{root}/expected.txt") as stream:\n    expected = stream.read()\n'
        'with open(f"{sub}/workdir/x") as stream:\n    answer = stream.read(64)',
        "data = json.load(open(root))",
        'def load(path):\n    with open(path) as stream:\n        return json.load(stream)\nload(f"{root}/facts.json")',
        'path = f"{sub}/workdir/x"\nif os.path.getsize(path) < 4096:\n    text = open(path).read()',
        'import re\nre.compile("[0-9]+").fullmatch(open(f"{sub}/workdir/x").read(64))',
        "from karotte_grading import run_as_student\n"
        'done = run_as_student(["/usr/bin/python3", f"{sub}/workdir/x.py"])\nvalue = json.loads(done.stdout)',
        'from karotte_grading import read_submitted\njson.loads(read_submitted(f"{sub}/workdir/x", max_bytes=64))',
        'yaml.load(open(f"{sub}/workdir/x").read(64), Loader=yaml.SafeLoader)',
        'exec(open(f"{root}/helpers.py").read())',  # the author's own
    ],
)
def test_what_a_sound_script_does_is_no_flaw(code: str) -> None:
    assert kinds(code) == []


@pytest.mark.parametrize(
    "code",
    [
        'open(f"{sub}/workdir/x").read()',
        'open(f"{sub}/workdir/x").read(-1)',
        'Path(sub, "workdir/x").read_text()',
        'json.load(open(f"{sub}/workdir/x"))',
        'with open(f"{sub}/workdir/x") as f:\n    f.readlines()',
        'def read(path):\n    with open(path) as f:\n        return f.read()\nread(f"{sub}/workdir/x")',
        "def main(a, b, c):\n    return open(a).read()\nmain(*sys.argv[1:])",
        "open(sys.argv[1]).read()",
        'for name in os.listdir(sub):\n    open(os.path.join(sub, name), "rb").read()',
        'open(f"{sub}/x").read(10**12)',
        'open(f"{sub}/x").read(sys.maxsize)',
        'N = -1\nopen(f"{sub}/x").read(N)',
        'os.read(os.open(f"{sub}/x", os.O_RDONLY), 1 << 40)',
        'from karotte_grading import read_submitted\nread_submitted(f"{sub}/x", 2**40)',
        'read = open(f"{sub}/x").read\nread()',
        'file = open(f"{sub}/x")\nfor line in iter(file.readline, ""):\n    pass',
        '"".join(open(f"{sub}/x"))',
        'tuple(open(f"{sub}/x"))',
        'list(map(int, open(f"{sub}/x")))',
        '[*open(f"{sub}/x")]',
        'first, *rest = open(f"{sub}/x")',
        'with open(f"{sub}/x") as stream:\n    json.load(stream)',
        'from contextlib import ExitStack\nwith ExitStack() as stack:\n    stack.enter_context(open(f"{sub}/x")).read()',
        'import mmap\nfile = open(f"{sub}/x", "rb")\nmmap.mmap(file.fileno(), 0, access=1)[:]',
        'import zipfile\nzipfile.ZipFile(f"{sub}/x").read("a")',
        'import zipfile\nzipfile.ZipFile(f"{sub}/x").extractall("/tmp/x")',
        'import gzip\ngzip.open(f"{sub}/x").read()',
        'import gzip\ngzip.decompress(open(f"{sub}/x", "rb").read(10000))',
        'import linecache\nlinecache.getlines(f"{sub}/x")',
        'import configparser\nconfigparser.ConfigParser().read(f"{sub}/x")',
        'from json import load\nload(open(f"{sub}/x"))',
        'load = json.load\nload(open(f"{sub}/x"))',
        'from csv import DictReader\nDictReader(open(f"{sub}/x"))',
        'yaml.safe_load(open(f"{sub}/x"))',
        'import xml.etree.ElementTree as T\nT.parse(f"{sub}/x")',
        'from xml.etree import ElementTree\nElementTree.parse(open(f"{sub}/x"))',
        'import numpy as np\nnp.loadtxt(f"{sub}/x")',
    ],
)
def test_a_read_without_a_bound_is_found(code: str) -> None:
    assert UNBOUNDED in kinds(code)


def test_lines_of_any_length_are_found() -> None:
    assert kinds('with open(f"{sub}/workdir/x") as f:\n    for line in f:\n        pass') == [UNBOUNDED_LINE]
    assert kinds('with open(f"{root}/x") as f:\n    for line in f:\n        pass') == []


@pytest.mark.parametrize(
    "code",
    [
        'eval(open(f"{sub}/workdir/x").read(64))',
        'text = open(f"{sub}/workdir/x").read(64)\nexec(compile(text, "x", "exec"))',
        'from karotte_grading import read_submitted\neval(read_submitted(f"{sub}/workdir/x", 64))',
        'pickle.load(open(f"{sub}/workdir/x", "rb"))',
        'yaml.load(open(f"{sub}/workdir/x").read(64))',
        'import numpy as np\nnp.load(f"{sub}/workdir/x", allow_pickle=True)',
        'subprocess.run(["python3", f"{sub}/workdir/x.py"])',
        'os.system("python3 " + sub)',
        "sys.path.insert(0, sub)",
        "import runpy\nrunpy.run_path(sub)",
        'from importlib import util\nutil.spec_from_file_location("x", f"{sub}/workdir/x.py")',
        'from importlib.machinery import SourceFileLoader\nSourceFileLoader("x", f"{sub}/workdir/x.py").load_module()',
        "import ctypes\nctypes.CDLL(sub)",
        "import marshal\nmarshal.load(open(sub, 'rb'))",
        "import shelve\nshelve.open(sub)",
        "import dill\ndill.load(open(sub, 'rb'))",
        "import joblib\njoblib.load(sub)",
        "import torch\ntorch.load(sub)",
        "import pandas as pd\npd.read_pickle(sub)",
        "yaml.unsafe_load(open(sub).read(64))",
        "yaml.load(open(sub).read(64), Loader=yaml.FullLoader)",
        "import pytest\npytest.main([sub])",
        "import unittest\nunittest.defaultTestLoader.discover(sub)",
        "os.execvp('python3', ['python3', sub])",
        "os.spawnl(os.P_WAIT, '/usr/bin/python3', 'python3', sub)",
        "os.posix_spawn(sub, [sub], {})",
        "import pty\npty.spawn([sub])",
        "import asyncio\nasync def go():\n    await asyncio.create_subprocess_exec('python3', sub)",
        "import asyncio\nasync def go():\n    await asyncio.create_subprocess_shell(f'python3 {sub}')",
        "subprocess.run(['python3', '-'], stdin=open(sub))",
        "subprocess.run(['python3', 'x.py'], cwd=sub)",
        TEXT + "subprocess.Popen(['python3'], stdin=subprocess.PIPE).communicate(text)",
        "subprocess.run(**{'args': ['python3', sub]})",
        "os.chdir(sub + '/workdir')\nsubprocess.run(['python3', 'x.py'])",
        "subprocess.run(['python3', '-m', 'x'], env=dict(os.environ, PYTHONPATH=sub))",
        "os.environ['PYTHONPATH'] = sub\nsubprocess.run(['python3', '-m', 'x'])",
        "sys.path += [sub]",
        "sys.path = [sub, *sys.path]",
        "sys.path[:0] = [sub]",
        "from sys import path\npath.insert(0, sub)",
        "import shutil\nshutil.copytree(sub, '/tmp/w')\nsubprocess.run(['python3', '/tmp/w/x.py'])",
        "import shutil, tempfile\nplace = tempfile.mkdtemp()\nshutil.copy(sub, place)\nsubprocess.run(['pytest'], cwd=place)",
        TEXT + "place = Path('/tmp/x.py')\nplace.write_text(text)\nsubprocess.run(['python3', place])",
        TEXT + "with open('/tmp/x.py', 'w') as file:\n    file.write(text)\nsubprocess.run(['python3', '/tmp/x.py'])",
        "import tarfile\ntarfile.open(sub).extractall('/tmp/x')",
        "import shutil\nshutil.unpack_archive(sub, '/tmp/x')",
        TEXT + "import sqlite3\nsqlite3.connect(root + '/x.db').execute(text)",
        TEXT + "import sqlite3\nsqlite3.connect(root + '/x.db').executescript(text)",
        TEXT + "text.format(expected=open(root + '/expected.txt').read())",
        TEXT + "import jinja2\njinja2.Template(text).render()",
        TEXT + "import jinja2\njinja2.Environment().from_string(text).render()",
    ],
)
def test_every_way_to_run_what_was_handed_in_is_found(code: str) -> None:
    assert RUNS in kinds(code)


@pytest.mark.parametrize(
    "code",
    [
        TEXT + "open(text.strip()).read(9)",
        TEXT + "(Path(root) / text).read_text()",
        TEXT + "with open(os.path.join(sub, 'workdir', text)) as stream:\n    stream.read(9)",
        TEXT + "Path(json.loads(text)['file']).read_bytes()",
        TEXT + "from karotte_grading import read_submitted\nread_submitted(text, 64)",
        "for line in open(sub):\n    with open(line.strip()) as stream:\n        stream.read(9)",
        "from karotte_grading import run_as_student\nopen(run_as_student(['/bin/sh', sub]).stdout).read(9)",
    ],
)
def test_a_path_that_the_submission_names_is_found(code: str) -> None:
    assert NAMED_PATH in kinds(code)


@pytest.mark.parametrize(
    "code",
    [
        TEXT + "if text in ('a', 'b'):\n    open(f'{sub}/workdir/{text}').read(9)",
        TEXT + "path = Path(sub, text).resolve()\nif path.is_relative_to(sub):\n    path.open().read(9)",
        TEXT + "open(os.path.join(root, os.path.basename(text))).read(9)",
        TEXT + "open(f'{root}/case{int(text)}.txt').read(9)",
        "for name in os.listdir(sub):\n    open(os.path.join(sub, name)).read(9)",
    ],
)
def test_a_name_that_was_looked_at_may_be_opened(code: str) -> None:
    assert kinds(code) == []


def test_a_pattern_that_was_handed_in_is_found_and_one_of_the_authors_own_is_none() -> None:
    assert kinds(TEXT + "import re\nre.fullmatch(text, 'x')") == [PATTERN]
    assert kinds(TEXT + "import re\nre.compile(text)") == [PATTERN]
    assert kinds(TEXT + "import re\nre.search(re.escape(text), 'x')\nre.search(open(root).read(), text)") == []


def test_a_flaw_names_its_line_and_its_code() -> None:
    (flaw,) = flaws_of(HEAD + "\n\neval(open(sub).read(1))")
    assert (flaw.line, flaw.what) == (6, "eval(open(sub).read(1))")
