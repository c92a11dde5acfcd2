"""Scoring scripts as people write them, sound ones, each in a style of its own. Data only."""

__all__ = ["SOUND"]

SOUND = {
    "argparse": """
import argparse, json
from pathlib import Path
def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("submission", type=Path)
    p.add_argument("root_data", type=Path)
    p.add_argument("result", type=Path)
    p.add_argument("--verbose", action="store_true")
    a = p.parse_args()
    expected = json.loads((a.root_data / "expected.json").read_text())
    with open(a.submission / "workdir" / "answer.json", "rb") as f:
        answer = f.read(4097)
    if len(answer) > 4096:
        raise SystemExit
    found = json.loads(answer)
    score = sum(found.get(k) == v for k, v in expected.items()) / len(expected)
    a.result.write_text(json.dumps({"score": score}))
main()
""",
    "a class": """
import sys, json, csv, io
from karotte_grading import read_submitted, SubmissionUnusable
class Grader:
    def __init__(self, submission, root, result):
        self.submission, self.root, self.result = submission, root, result
    def expected(self):
        with open(self.root + "/rows.csv") as f:
            return list(csv.DictReader(f))
    def found(self):
        text = read_submitted(self.submission + "/workdir/rows.csv", 65536).decode()
        return list(csv.DictReader(io.StringIO(text)))
    def run(self):
        score = float(self.found() == self.expected())
        with open(self.result, "w") as f:
            json.dump({"score": score}, f)
Grader(*sys.argv[1:]).run()
""",
    "one function reads both": """
import sys, json, os
def read(path, limit):
    with open(path, "rb") as f:
        return f.read(limit)
def main(argv):
    _, sub, root, out = argv
    path = os.path.join(sub, "workdir/answer.txt")
    answer = read(path, 65)
    path = os.path.join(root, "expected.txt")
    expected = read(path, 65)
    other = open(os.path.join(root, "other.txt")).read()
    json.dump({"score": float(answer == expected)}, open(out, "w"))
if __name__ == "__main__":
    sys.exit(main(sys.argv))
""",
    "a dataclass, messages by table": """
import sys, json
from dataclasses import dataclass
from pathlib import Path
@dataclass
class Places:
    submission: Path
    root: Path
    result: Path
places = Places(*map(Path, sys.argv[1:]))
expected = json.load(open(places.root / "x.json"))
with (places.submission / "workdir/a.txt").open("rb") as f:
    answer = f.read(100)
messages = {"a": "{} is right", "b": "{} is wrong"}
text = answer.decode()
reason = messages.get(text, "{} is unknown").format(len(text))
places.result.write_text(json.dumps({"score": 1.0, "metadata": {"reason": reason}}))
""",
    "sql with parameters": """
import sys, sqlite3
sub, root, out = sys.argv[1:]
with open(f"{sub}/workdir/name.txt") as f:
    name = f.read(64)
db = sqlite3.connect(f"{root}/data.db")
row = db.execute("select total from t where name = ?", (name,)).fetchone()
""",
    "run_as_student and a reference": """
import sys, os, subprocess, json
from karotte_grading import run_as_student
sub, root, out = sys.argv[1:]
cases = json.load(open(os.path.join(root, "cases.json")))
score = 0
for case in cases:
    done = run_as_student(["/usr/bin/python3", f"{sub}/workdir/solve.py"], stdin=case["in"].encode())
    value = done.stdout.decode("utf-8", "replace").strip()
    score += value == case["out"]
subprocess.run(["sync"])
reference = subprocess.run([sys.executable, os.path.join(root, "reference.py")], capture_output=True).stdout
""",
    "patterns of its own": """
import sys, re, os, json
sub, root, out = sys.argv[1:]
text = open(os.path.join(sub, "workdir", "report.md")).read(10001)
expected = json.load(open(os.path.join(root, "e.json")))
for name in expected["names"]:
    if re.search(rf"\\b{re.escape(name)}\\b", text): pass
if re.fullmatch(expected["pattern"], text): pass
if text.split()[0] in expected: pass
number = int(text.split()[0])
case = open(os.path.join(root, f"case{number}.txt")).read()
print("{:.3f}".format(float(text.split()[1])))
""",
    "files by a list of the author's": """
import sys, os, hashlib
sub, root, out = sys.argv[1:]
for name in sorted(os.listdir(os.path.join(root, "files"))):
    want = open(os.path.join(root, "files", name), "rb").read()
    with open(os.path.join(sub, "workdir/out", name), "rb") as f:
        got = f.read(len(want) + 1)
with open(os.path.join(sub, "workdir/big.bin"), "rb") as f:
    d = hashlib.file_digest(f, "sha256").hexdigest()
""",
    "a name that is looked up": """
import sys, os
sub, root, out = sys.argv[1:]
manifest = open(sub + "/workdir/manifest.txt").read(4096).split()
for name in manifest:
    if name not in ("a.txt", "b.txt"):
        continue
    text = open(os.path.join(sub, "workdir", name)).read(100)
""",
    "a path that is resolved": """
import sys, os
from pathlib import Path
sub, root, out = map(Path, sys.argv[1:])
manifest = (sub / "workdir/manifest.txt").open().read(4096).split()
for name in manifest:
    path = (sub / "workdir" / name).resolve()
    if not path.is_relative_to(sub):
        continue
    text = path.open().read(100)
""",
    "numpy in memory": """
import sys, io, zipfile, numpy as np
sub, root, out = sys.argv[1:]
expected = np.load(root + "/e.npy", allow_pickle=True)
with open(sub + "/workdir/a.npy", "rb") as f:
    data = f.read(100000)
a = np.load(io.BytesIO(data), allow_pickle=False)
""",
    "a pool": """
import sys, json
from concurrent.futures import ThreadPoolExecutor
sub, root, out = sys.argv[1:]
def grade(name):
    with open(f"{sub}/workdir/{name}") as f:
        found = f.read(100)
    with open(f"{root}/{name}") as f:
        return f.read() == found
with ThreadPoolExecutor() as pool:
    scores = list(pool.map(grade, ["a", "b"]))
json.dump({"score": sum(scores) / 2}, open(out, "w"))
""",
    "code of the author's": """
import sys, os, json
def load(name, folder):
    with open(os.path.join(folder, name)) as f:
        return f.read(1000)
answer = load("workdir/a.txt", sys.argv[1])
settings = load("settings.json", sys.argv[2])
code = json.loads(settings)["code"]
exec(code)
helper = open(os.path.join(sys.argv[2], json.loads(settings)["file"])).read()
""",
    "by os.open": """
import sys, os
SUBMISSION_DIR, ROOT_DATA_DIR, RESULT_PATH = sys.argv[1:4]
ANSWER = "/workdir/answer.txt"
def copy_of(path): return SUBMISSION_DIR + path
try:
    fd = os.open(copy_of(ANSWER), os.O_RDONLY | os.O_NOFOLLOW)
except OSError:
    data = b""
else:
    with os.fdopen(fd, "rb") as f:
        data = f.read(64)
lines = data.decode().splitlines()
for line in lines: pass
total = "".join(sorted(lines))
""",
    "the size is looked at": """
import sys
from pathlib import Path
submission, root_data, result = (Path(argument) for argument in sys.argv[1:4])
sys.path.insert(0, str(root_data))
import reference
expected = reference.solve((root_data / "in.txt").read_text())
path = submission / "workdir" / "out.txt"
if path.stat().st_size < 1000:
    found = path.read_text()
""",
    "one name for path and text": """
import os, sys
sub = sys.argv[1]
root = sys.argv[2]
answer = os.path.join(sub, "workdir/answer.txt")
with open(answer) as f:
    answer = f.read(64)
os.environ["LANG"] = "C"
os.chdir(root)
import subprocess
subprocess.run(["make"])
""",
    "default arguments": """
import sys
def parse(argv=None):
    argv = sys.argv[1:] if argv is None else argv
    return argv[0], argv[1], argv[2]
def main():
    sub, root, out = parse()
    with open(sub + "/workdir/a") as f: a = f.read(5)
    with open(root + "/e") as f: e = f.read()
    open(out, "w").write("x")
main()
""",
    "many small functions": """
import sys
from pathlib import Path
def load_expected(root: Path): return {p.name: p.read_text() for p in root.iterdir()}
def load_answer(sub: Path, names):
    out = {}
    for name in names:
        p = sub / "workdir" / name
        with p.open("rb") as f:
            out[name] = f.read(1000)
    return out
def main(argv):
    sub, root, out = (Path(a) for a in argv[1:])
    expected = load_expected(root)
    got = load_answer(sub, expected)
    return sum(got[n].decode() == expected[n] for n in expected)
main(sys.argv)
""",
    "a copy for run_as_student": """
import sys, shutil, tempfile, subprocess, os
from karotte_grading import run_as_student
sub, root, out = sys.argv[1:]
work = tempfile.mkdtemp()
shutil.copy(sub + "/workdir/a.py", work)
done = run_as_student(["/usr/bin/python3", work + "/a.py"], readable=(work,))
reference = subprocess.run([sys.executable, root + "/ref.py"], capture_output=True)
""",
    "metadata and logs": """
import sys, json, logging
sub, root, out = sys.argv[1:]
with open(sub + "/workdir/a") as f:
    a = f.read(100)
logging.info("answer %r", a)
print(a, file=sys.stderr)
with open(out, "w") as f:
    f.write(json.dumps({"score": 1.0, "metadata": {"said": a[:10]}}))
""",
    "a scoring class of errors": """
import sys, os, json, math
from pathlib import Path
from typing import Any
from karotte_grading import SubmissionUnusable, read_submitted
class Wrong(Exception): pass
def load(submission: Path, name: str) -> dict[str, Any]:
    try:
        return json.loads(read_submitted(submission / "workdir" / name, 4096).decode())
    except (SubmissionUnusable, ValueError) as error:
        raise Wrong(str(error)) from None
def check(value, want):
    if not isinstance(value, float) or not math.isclose(value, want):
        raise Wrong(f"{value!r:.20} is not it")
def main(argv: list[str]) -> int:
    submission, root, result = (Path(each) for each in argv)
    want = json.loads((root / "want.json").read_text())
    reason, score = "right", 1.0
    try:
        got = load(submission, "a.json")
        for key, value in want.items():
            check(got.get(key), value)
    except Wrong as wrong:
        reason, score = str(wrong), 0.0
    result.write_text(json.dumps({"score": score, "metadata": {"reason": reason}}))
    return 0
if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
""",
    "archives and templates of the author's": """
import sys, tarfile, io
sub, root, out = sys.argv[1:]
with open(sub + "/workdir/a.txt") as f: a = f.read(10)
with tarfile.open(root + "/files.tar") as t:
    t.extractall("/tmp/files")
cases = open("/tmp/files/cases.txt").read()
TEMPLATE = open(root + "/template.txt").read()
print(TEMPLATE.format(answer=a))
""",
    "words and lines": """
import sys, re
sub, root, out = sys.argv[1:]
patterns = {"sum": re.compile("sum: ([0-9]+)")}
with open(sub + "/workdir/a.txt") as f: text = f.read(1000)
found = patterns["sum"].search(text)
lines = [line for line in text.splitlines() if re.match("x", line)]
words = sorted(set(text.split()), key=lambda word: (len(word), word))
best = max(words, key=len, default="")
"".join(reversed(text))
""",
    "a pickle of the author's": """
import sys, pickle, os
sub, root, out = sys.argv[1:]
model = pickle.load(open(os.path.join(root, "model.pkl"), "rb"))
with open(os.path.join(sub, "workdir/in.txt")) as f: text = f.read(1000)
score = model.predict([text])[0]
""",
    "paths of the author's": """
import sys, os, subprocess
sub, root, out = sys.argv[1:]
os.environ["PATH"] = "/usr/bin"
sys.path.insert(0, root)
from helpers import compare
with open(os.path.join(sub, "workdir/in.txt")) as f: text = f.read(1000)
score = compare(text, os.path.join(root, "x"))
subprocess.run(["/usr/bin/env"], check=True)
""",
    "tables in memory": """
import sys, csv, io, collections
sub, root, out = sys.argv[1:]
with open(sub + "/workdir/a.csv") as f: text = f.read(65537)
rows = list(csv.reader(io.StringIO(text)))
counts = collections.Counter(row[0] for row in rows)
expected = {row["k"]: row for row in csv.DictReader(open(root + "/e.csv"))}
for row in rows:
    if row[0] in expected: pass
with open(root + "/" + "e2.csv") as f:
    for line in f: pass
""",
    "async": """
import sys, asyncio, pathlib
async def read(path: pathlib.Path, most: int) -> bytes:
    with path.open("rb") as f:
        return f.read(most)
async def main() -> None:
    sub, root, out = map(pathlib.Path, sys.argv[1:])
    a = await read(sub / "workdir/a", 64)
    e = await read(root / "e", 64)
    full = (root / "big").read_bytes()
    out.write_text("{}")
asyncio.run(main())
""",
    "tables of places": """
import sys
places = {"submission": sys.argv[1], "root": sys.argv[2]}
args = dict(zip(("sub", "root", "out"), sys.argv[1:]))
expected = open(places["root"] + "/e").read() + open(args["root"] + "/e").read()
answer = open(places["submission"] + "/workdir/a").read(9) + open(args["sub"] + "/workdir/a").read(9)
""",
}
