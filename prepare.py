"""Prepare data ahead of training: questions, drawings, vectors; download and check files; look at neighbours.

python prepare.py [data=...]                                       everything train.py needs
python prepare.py task=download data=recipeqa/textual_cloze data.root=<folder>
python prepare.py task=check data=... [data.train_file=... data.test_file=...]
python prepare.py task=neighbours word=butter
"""

import hydra
from omegaconf import DictConfig

from engine.launch import guarded, hide_output


@hydra.main(version_base="1.3", config_path="conf", config_name="prepare")
def main(cfg: DictConfig) -> None:
    """Run one of the tasks."""
    guarded("engine.preparation", "prepare", cfg)


if __name__ == "__main__":
    hide_output()
    main()
