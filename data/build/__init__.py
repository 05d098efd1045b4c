"""What `prepare.py` runs: builders of question sets, downloads and checks."""
