"""Collect and verify: the annotation pages of photos, dish facts and questions, in a browser.

python annotate.py                                           serve the pages on this machine
python annotate.py folder=<store> language=en port=7861
python annotate.py task=export folder=<store>                everything collected, in the released schema
python annotate.py task=agreement folder=<store>             the agreement of the verifiers
python annotate.py task=import question_task=textqa records=<file> folder=<store>
"""

import hydra
from omegaconf import DictConfig

from engine.launch import guarded


@hydra.main(version_base="1.3", config_path="conf", config_name="annotate")
def main(cfg: DictConfig) -> None:
    """Run one of the tasks."""
    guarded("annotation.app", "annotate", cfg)


if __name__ == "__main__":
    main()
