"""Classify texts with a folder that `srnet export --format onnx` wrote: numpy, onnxruntime and tokenizers are enough.

python onnx_classify.py DIR "a text" ["a second text"]
python onnx_classify.py DIR < pairs.tsv         # one text a line, or two with a tab between them
"""

import hashlib
import json
import os
import sys
from pathlib import Path

# before the import: onnxruntime otherwise writes a device id and looks up a host
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


def main(folder: str, *texts: str) -> None:
    path = Path(folder)
    card = json.loads((path / "srnet.json").read_text()) if (path / "srnet.json").is_file() else {}
    if not isinstance(card, dict) or card.get("kind") != "onnx":
        sys.exit(f"{folder} is not a folder that `srnet export --format onnx` wrote")
    for name, checksum in card["files"].items():
        if not (path / name).is_file() or hashlib.sha256((path / name).read_bytes()).hexdigest() != checksum:
            sys.exit(f"{path / name} is missing or altered: its checksum does not match")
    tokenizer = Tokenizer.from_file(str(path / "tokenizer.json"))  # cuts and pads
    session = onnxruntime.InferenceSession(path / "model.onnx")
    rows = [texts] if texts else [line.rstrip("\n").split("\t") for line in sys.stdin]
    if not rows or max(map(len, rows)) > 2:
        sys.exit("give rows of one text or two")
    between = card["more"]["before_second_text"]
    tokens = tokenizer.encode_batch([(row[0], between + row[1]) if len(row) > 1 else row[0] for row in rows])
    names = [each.name for each in session.get_inputs()]
    feed = {name: np.array([getattr(each, COLUMNS[name]) for each in tokens], dtype=np.int64) for name in names}
    (logits,) = session.run(["logits"], feed)
    for row in logits:
        print(card["labels"][int(row.argmax())], *(f"{value:.6f}" for value in row), sep="\t")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) if len(sys.argv) > 1 else __doc__)
