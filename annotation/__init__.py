"""Pages on which people collect dish photos and facts, write questions and verify them; `annotate.py` serves them."""
