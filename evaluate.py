"""Score a checkpoint, or a system that needs no training, and print it beside chance, baselines and published rows.

python evaluate.py ckpt_path=runs/.../checkpoints/best.ckpt [data.test_file=...] [question=one.json]
python evaluate.py model=hasty_student data=recipeqa/visual_ordering data.root=... [export=official]
python evaluate.py embeddings=mine.npz                             retrieval: your own embeddings, official protocol
python evaluate.py ckpt_path=... query=photo.jpg | recipe.json     retrieval: nearest neighbours
python evaluate.py data=foodieqa/multi_image model=vlm/transformers model.name=FOLDER_OR_HUB_NAME     FoodieQA
python evaluate.py folds=runs/sweeps/<time>                        all folds of a sweep together
"""

import hydra
from omegaconf import DictConfig

from engine.launch import guarded, hide_output


@hydra.main(version_base="1.3", config_path="conf", config_name="evaluate")
def main(cfg: DictConfig) -> float | None:
    """Return the accuracy (of all tasks' questions together, where there are several tasks)."""
    # Questions that no model here is trained on need little of what the others load.
    module = "engine.asking" if cfg.data._target_ == "data.foodieqa.FoodieQAData" else "engine.evaluation"
    return guarded(module, "evaluate", cfg)


if __name__ == "__main__":
    hide_output()
    main()
