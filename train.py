"""Train a model, test its best checkpoint, write everything into one run folder.

python train.py [data=...] [model=...] [trainer=...] [logger=[csv,wandb]] [any.key=value] [-m for sweeps]
python train.py ckpt_path=runs/.../checkpoints/last.ckpt      resumes as if nothing had happened
"""

import hydra
from omegaconf import DictConfig

from engine.launch import guarded, hide_output


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float | None:
    """Return the validation accuracy of the best checkpoint, which sweeps optimise."""
    return guarded("engine.training", "train", cfg)


if __name__ == "__main__":
    hide_output()
    main()
