"""Collect runs into one report: means over seeds, intervals, paired tests, published rows, figures.

python report.py                                             every run below runs/
python report.py "runs=[runs/sweeps/<time>,runs/wikibooks/textual_cloze]" [out=FOLDER] [tables=all]
python report.py "runs='runs/*/hasty_student/*'"             a pattern
"""

import hydra
from omegaconf import DictConfig

from engine.launch import guarded


@hydra.main(version_base="1.3", config_path="conf", config_name="report")
def main(cfg: DictConfig) -> None:
    """Write report.md, report.csv, report.tex and the figures, and print the tables."""
    guarded("engine.results_report", "report", cfg)


if __name__ == "__main__":
    main()
