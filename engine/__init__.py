"""What a run needs around Lightning and Hydra: run folders, checkpoints, resuming, trackers, reports."""
