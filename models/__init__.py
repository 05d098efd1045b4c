"""Networks, losses, metrics, task modules, and the baselines that need no training."""
