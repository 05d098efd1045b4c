"""How fast Doc2Vec may move a document vector: accuracy of cosine(choice, mean of the context) on validation questions.

python benchmarks/doc2vec_rate.py     prints the table of docs/log.md; no test question is read
"""

import dataclasses
import sys
from pathlib import Path

import numpy as np
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import engine.launch  # noqa: E402, F401 (registers the resolver of run folders)


def main() -> None:
    """Fit once on the training split, encode the validation texts at each rate."""
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        data = instantiate(compose("train", ["output_dir=unused"]).data)
    data._fit_text(data.read("train"))
    encoder = data.encoder
    questions = [q for q in data.read("val") if q.task == "textual_cloze"]
    texts = sorted({s.body for q in questions for s in q.context} | {c[0] for q in questions for c in q.choices})
    row = {text: i for i, text in enumerate(texts)}
    print(f"\n| text.infer_alpha | accuracy % of {len(questions)} validation questions |\n|--:|--:|")
    for rate in (0.025, 0.05, 0.1, 0.2, 0.4):
        encoder.settings = dataclasses.replace(encoder.settings, infer_alpha=rate)
        vectors = encoder.encode(texts)
        right = 0
        for q in questions:
            context = np.mean([vectors[row[s.body]] for s in q.context], 0)
            choices = vectors[[row[c[0]] for c in q.choices]]
            norms = np.linalg.norm(choices, axis=1) * np.linalg.norm(context)
            right += int((choices @ context / np.maximum(norms, 1e-9)).argmax() == q.answer)
        print(f"| {rate} | {100 * right / len(questions):.1f} |", flush=True)


if __name__ == "__main__":
    main()
